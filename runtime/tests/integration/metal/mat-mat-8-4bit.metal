// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
};

struct Job {
    uint at;
    uint superblocks;
    uint rows;
    uint tokens;
    uint x_stride;
    uint y_stride;
    uint y_first;
    uint bias;
};
typedef uint type_1[1];
typedef metal::float4 type_4[1];
typedef float type_5[1];
struct type_7 {
    half inner[9216];
};
struct type_8 {
    float inner[512];
};
struct type_11 {
    uint inner[16];
};
constant float shift = 0.0;
metal::simdgroup_half8x8 NagaCooperativeLoad(const threadgroup half* ptr, int stride, bool is_row_major) {
    metal::simdgroup_half8x8 m;
    simdgroup_load(m, ptr, stride, 0, is_row_major);
    return m;
}

metal::simdgroup_float8x8 NagaCooperativeMultiplyAdd(const thread metal::simdgroup_half8x8& a, const thread metal::simdgroup_half8x8& b, const thread metal::simdgroup_float8x8& c) {
    metal::simdgroup_float8x8 d;
    simdgroup_multiply_accumulate(d,a,b,c);
    return d;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_1 const& w [[user(fake0)]]
, device type_4 const& x [[user(fake0)]]
, device type_5& y [[user(fake0)]]
, device type_5 const& vectors [[user(fake0)]]
, threadgroup type_7& ws
, threadgroup type_7& xs
, threadgroup type_8& squares
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        ws = {};
        xs = {};
        squares = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 c00_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c01_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c02_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c03_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c04_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c05_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c06_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c07_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c10_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c11_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c12_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c13_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c14_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c15_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c16_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c17_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c20_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c21_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c22_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c23_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c24_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c25_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c26_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c27_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c30_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c31_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c32_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c33_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c34_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c35_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c36_ = metal::simdgroup_float8x8 {};
    metal::simdgroup_float8x8 c37_ = metal::simdgroup_float8x8 {};
    uint b0_ = 0u;
    uint quad_ = {};
    uint t = {};
    metal::float4 v = {};
    bool local = {};
    uint e = {};
    bool local_1 = {};
    uint e_1 = {};
    bool local_2 = {};
    uint e_2 = {};
    bool local_3 = {};
    uint e_3 = {};
    bool local_4 = {};
    uint e_4 = {};
    bool local_5 = {};
    uint e_5 = {};
    bool local_6 = {};
    uint e_6 = {};
    bool local_7 = {};
    uint e_7 = {};
    bool local_8 = {};
    uint e_8 = {};
    bool local_9 = {};
    uint e_9 = {};
    bool local_10 = {};
    uint e_10 = {};
    bool local_11 = {};
    uint e_11 = {};
    bool local_12 = {};
    uint e_12 = {};
    bool local_13 = {};
    uint e_13 = {};
    bool local_14 = {};
    uint e_14 = {};
    bool local_15 = {};
    uint e_15 = {};
    bool local_16 = {};
    uint e_16 = {};
    bool local_17 = {};
    uint e_17 = {};
    bool local_18 = {};
    uint e_18 = {};
    bool local_19 = {};
    uint e_19 = {};
    bool local_20 = {};
    uint e_20 = {};
    bool local_21 = {};
    uint e_21 = {};
    bool local_22 = {};
    uint e_22 = {};
    bool local_23 = {};
    uint e_23 = {};
    bool local_24 = {};
    uint e_24 = {};
    bool local_25 = {};
    uint e_25 = {};
    bool local_26 = {};
    uint e_26 = {};
    bool local_27 = {};
    uint e_27 = {};
    bool local_28 = {};
    uint e_28 = {};
    bool local_29 = {};
    uint e_29 = {};
    bool local_30 = {};
    uint e_30 = {};
    bool local_31 = {};
    uint e_31 = {};
    bool local_32 = {};
    uint row = lid & 15u;
    uint mine = (lid >> 4u) & 7u;
    uint half_ = lid >> 7u;
    uint first_row = group.x * 128u;
    uint first_token = group.y * 128u;
    uint subgroup = lid >> 5u;
    uint sub_token = (subgroup & 3u) * 32u;
    uint sub_row = (subgroup >> 2u) * 64u;
    uint _e28 = job.at;
    uint _e34 = job.rows;
    uint _e43 = job.superblocks;
    uint panel0_ = _e28 + (metal::min((first_row >> 4u) + mine, (_e34 - 1u) >> 4u) * (0u + (_e43 * 144u)));
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e2792 = b0_;
            b0_ = _e2792 + 1u;
        }
        loop_init = false;
        uint _e115 = b0_;
        uint _e118 = job.superblocks;
        if (_e115 < _e118) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            {
                uint slot = lid & 15u;
                quad_ = 0u;
                quad_ = type_11 {{0u, 1u, 2u, 3u, 8u, 9u, 10u, 11u, 4u, 5u, 6u, 7u, 12u, 13u, 14u, 15u}}.inner[slot];
                uint _e142 = b0_;
                uint _e145 = quad_;
                uint column = (_e142 * 16u) + _e145;
                t = lid >> 4u;
                uint2 loop_bound_1 = uint2(4294967295u);
                bool loop_init_1 = true;
                while(true) {
                    if (metal::all(loop_bound_1 == uint2(0u))) { break; }
                    loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
                    if (!loop_init_1) {
                        uint _e207 = t;
                        t = _e207 + 16u;
                    }
                    loop_init_1 = false;
                    uint _e150 = t;
                    if (_e150 < 128u) {
                    } else {
                        break;
                    }
                    {
                        v = metal::float4 {};
                        uint _e155 = t;
                        uint _e159 = job.tokens;
                        if ((first_token + _e155) < _e159) {
                            uint _e165 = job.superblocks;
                            local = column < (_e165 * 16u);
                        } else {
                            local = false;
                        }
                        bool _e170 = local;
                        if (_e170) {
                            uint _e172 = t;
                            uint _e176 = job.x_stride;
                            metal::float4 _e180 = x[((first_token + _e172) * _e176) + column];
                            v = _e180;
                        }
                        {
                            metal::float4 _e181 = v;
                            metal::half4 q = static_cast<metal::half4>(_e181);
                            uint _e184 = t;
                            uint i = 4u * ((_e184 * 18u) + slot);
                            xs.inner[i] = q.x;
                            xs.inner[i + 1u] = q.y;
                            xs.inner[i + 2u] = q.z;
                            xs.inner[i + 3u] = q.w;
                        }
                    }
                }
            }
            if (half_ == 0u) {
                uint _e212 = b0_;
                uint _e217 = job.superblocks;
                uint b = metal::min(_e212 + 0u, _e217 - 1u);
                uint at0_ = (panel0_ + 0u) + (b * 144u);
                uint _e233 = w[(at0_ + 0u) + (row >> 1u)];
                float s0_ = float2(as_type<half2>((_e233 >> ((row & 1u) << 4u)))).x;
                uint _e248 = w[(at0_ + 8u) + (row >> 1u)];
                float least0_ = float2(as_type<half2>((_e248 >> ((row & 1u) << 4u)))).x;
                float a0_ = 16.0 * s0_;
                float c0_ = least0_ - (16.0 * s0_);
                uint v0_0_ = w[(at0_ + 16u) + row];
                uint v0_1_ = w[(at0_ + 32u) + row];
                uint v0_2_ = w[(at0_ + 48u) + row];
                uint v0_3_ = w[(at0_ + 64u) + row];
                {
                    metal::half4 q_1 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_0_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_1 = 4u * ((((mine * 16u) + row) * 18u) + 0u);
                    ws.inner[i_1] = q_1.x;
                    ws.inner[i_1 + 1u] = q_1.y;
                    ws.inner[i_1 + 2u] = q_1.z;
                    ws.inner[i_1 + 3u] = q_1.w;
                }
                {
                    metal::half4 q_2 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_1_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_2 = 4u * ((((mine * 16u) + row) * 18u) + 1u);
                    ws.inner[i_2] = q_2.x;
                    ws.inner[i_2 + 1u] = q_2.y;
                    ws.inner[i_2 + 2u] = q_2.z;
                    ws.inner[i_2 + 3u] = q_2.w;
                }
                {
                    metal::half4 q_3 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_2_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_3 = 4u * ((((mine * 16u) + row) * 18u) + 2u);
                    ws.inner[i_3] = q_3.x;
                    ws.inner[i_3 + 1u] = q_3.y;
                    ws.inner[i_3 + 2u] = q_3.z;
                    ws.inner[i_3 + 3u] = q_3.w;
                }
                {
                    metal::half4 q_4 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_3_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_4 = 4u * ((((mine * 16u) + row) * 18u) + 3u);
                    ws.inner[i_4] = q_4.x;
                    ws.inner[i_4 + 1u] = q_4.y;
                    ws.inner[i_4 + 2u] = q_4.z;
                    ws.inner[i_4 + 3u] = q_4.w;
                }
                {
                    metal::half4 q_5 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_0_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_5 = 4u * ((((mine * 16u) + row) * 18u) + 4u);
                    ws.inner[i_5] = q_5.x;
                    ws.inner[i_5 + 1u] = q_5.y;
                    ws.inner[i_5 + 2u] = q_5.z;
                    ws.inner[i_5 + 3u] = q_5.w;
                }
                {
                    metal::half4 q_6 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_1_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_6 = 4u * ((((mine * 16u) + row) * 18u) + 5u);
                    ws.inner[i_6] = q_6.x;
                    ws.inner[i_6 + 1u] = q_6.y;
                    ws.inner[i_6 + 2u] = q_6.z;
                    ws.inner[i_6 + 3u] = q_6.w;
                }
                {
                    metal::half4 q_7 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_2_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_7 = 4u * ((((mine * 16u) + row) * 18u) + 6u);
                    ws.inner[i_7] = q_7.x;
                    ws.inner[i_7 + 1u] = q_7.y;
                    ws.inner[i_7 + 2u] = q_7.z;
                    ws.inner[i_7 + 3u] = q_7.w;
                }
                {
                    metal::half4 q_8 = static_cast<metal::half4>((a0_ * metal::float4(as_type<float>(((v0_3_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_));
                    uint i_8 = 4u * ((((mine * 16u) + row) * 18u) + 7u);
                    ws.inner[i_8] = q_8.x;
                    ws.inner[i_8 + 1u] = q_8.y;
                    ws.inner[i_8 + 2u] = q_8.z;
                    ws.inner[i_8 + 3u] = q_8.w;
                }
            }
            if (half_ == 1u) {
                uint _e767 = b0_;
                uint _e772 = job.superblocks;
                uint b_1 = metal::min(_e767 + 0u, _e772 - 1u);
                uint at0_1 = (panel0_ + 0u) + (b_1 * 144u);
                uint _e788 = w[(at0_1 + 0u) + (row >> 1u)];
                float s0_1 = float2(as_type<half2>((_e788 >> ((row & 1u) << 4u)))).x;
                uint _e803 = w[(at0_1 + 8u) + (row >> 1u)];
                float least0_1 = float2(as_type<half2>((_e803 >> ((row & 1u) << 4u)))).x;
                float a0_1 = 16.0 * s0_1;
                float c0_1 = least0_1 - (16.0 * s0_1);
                uint v0_4_ = w[(at0_1 + 80u) + row];
                uint v0_5_ = w[(at0_1 + 96u) + row];
                uint v0_6_ = w[(at0_1 + 112u) + row];
                uint v0_7_ = w[(at0_1 + 128u) + row];
                {
                    metal::half4 q_9 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_4_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_9 = 4u * ((((mine * 16u) + row) * 18u) + 8u);
                    ws.inner[i_9] = q_9.x;
                    ws.inner[i_9 + 1u] = q_9.y;
                    ws.inner[i_9 + 2u] = q_9.z;
                    ws.inner[i_9 + 3u] = q_9.w;
                }
                {
                    metal::half4 q_10 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_5_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_10 = 4u * ((((mine * 16u) + row) * 18u) + 9u);
                    ws.inner[i_10] = q_10.x;
                    ws.inner[i_10 + 1u] = q_10.y;
                    ws.inner[i_10 + 2u] = q_10.z;
                    ws.inner[i_10 + 3u] = q_10.w;
                }
                {
                    metal::half4 q_11 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_6_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_11 = 4u * ((((mine * 16u) + row) * 18u) + 10u);
                    ws.inner[i_11] = q_11.x;
                    ws.inner[i_11 + 1u] = q_11.y;
                    ws.inner[i_11 + 2u] = q_11.z;
                    ws.inner[i_11 + 3u] = q_11.w;
                }
                {
                    metal::half4 q_12 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_7_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 5u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_12 = 4u * ((((mine * 16u) + row) * 18u) + 11u);
                    ws.inner[i_12] = q_12.x;
                    ws.inner[i_12 + 1u] = q_12.y;
                    ws.inner[i_12 + 2u] = q_12.z;
                    ws.inner[i_12 + 3u] = q_12.w;
                }
                {
                    metal::half4 q_13 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_4_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_13 = 4u * ((((mine * 16u) + row) * 18u) + 12u);
                    ws.inner[i_13] = q_13.x;
                    ws.inner[i_13 + 1u] = q_13.y;
                    ws.inner[i_13 + 2u] = q_13.z;
                    ws.inner[i_13 + 3u] = q_13.w;
                }
                {
                    metal::half4 q_14 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_5_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_14 = 4u * ((((mine * 16u) + row) * 18u) + 13u);
                    ws.inner[i_14] = q_14.x;
                    ws.inner[i_14 + 1u] = q_14.y;
                    ws.inner[i_14 + 2u] = q_14.z;
                    ws.inner[i_14 + 3u] = q_14.w;
                }
                {
                    metal::half4 q_15 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_6_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_15 = 4u * ((((mine * 16u) + row) * 18u) + 14u);
                    ws.inner[i_15] = q_15.x;
                    ws.inner[i_15 + 1u] = q_15.y;
                    ws.inner[i_15 + 2u] = q_15.z;
                    ws.inner[i_15 + 3u] = q_15.w;
                }
                {
                    metal::half4 q_16 = static_cast<metal::half4>((a0_1 * metal::float4(as_type<float>(((v0_7_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 9u) & 7864320u) | 1065353216u))) + metal::float4(c0_1));
                    uint i_16 = 4u * ((((mine * 16u) + row) * 18u) + 15u);
                    ws.inner[i_16] = q_16.x;
                    ws.inner[i_16 + 1u] = q_16.y;
                    ws.inner[i_16 + 2u] = q_16.z;
                    ws.inner[i_16 + 3u] = q_16.w;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            {
                metal::simdgroup_half8x8 a0_2 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 0u], 72u, false);
                metal::simdgroup_half8x8 a1_ = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 0u], 72u, false);
                metal::simdgroup_half8x8 a2_ = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 0u], 72u, false);
                metal::simdgroup_half8x8 a3_ = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 0u], 72u, false);
                metal::simdgroup_half8x8 b0_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1370 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_2, b0_1, _e1370);
                metal::simdgroup_float8x8 _e1372 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_, b0_1, _e1372);
                metal::simdgroup_float8x8 _e1374 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_, b0_1, _e1374);
                metal::simdgroup_float8x8 _e1376 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_, b0_1, _e1376);
                metal::simdgroup_half8x8 b1_ = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1388 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_2, b1_, _e1388);
                metal::simdgroup_float8x8 _e1390 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_, b1_, _e1390);
                metal::simdgroup_float8x8 _e1392 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_, b1_, _e1392);
                metal::simdgroup_float8x8 _e1394 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_, b1_, _e1394);
                metal::simdgroup_half8x8 b2_ = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1406 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_2, b2_, _e1406);
                metal::simdgroup_float8x8 _e1408 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_, b2_, _e1408);
                metal::simdgroup_float8x8 _e1410 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_, b2_, _e1410);
                metal::simdgroup_float8x8 _e1412 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_, b2_, _e1412);
                metal::simdgroup_half8x8 b3_ = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1424 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_2, b3_, _e1424);
                metal::simdgroup_float8x8 _e1426 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_, b3_, _e1426);
                metal::simdgroup_float8x8 _e1428 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_, b3_, _e1428);
                metal::simdgroup_float8x8 _e1430 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_, b3_, _e1430);
                metal::simdgroup_half8x8 b4_ = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1442 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_2, b4_, _e1442);
                metal::simdgroup_float8x8 _e1444 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_, b4_, _e1444);
                metal::simdgroup_float8x8 _e1446 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_, b4_, _e1446);
                metal::simdgroup_float8x8 _e1448 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_, b4_, _e1448);
                metal::simdgroup_half8x8 b5_ = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1460 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_2, b5_, _e1460);
                metal::simdgroup_float8x8 _e1462 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_, b5_, _e1462);
                metal::simdgroup_float8x8 _e1464 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_, b5_, _e1464);
                metal::simdgroup_float8x8 _e1466 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_, b5_, _e1466);
                metal::simdgroup_half8x8 b6_ = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1478 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_2, b6_, _e1478);
                metal::simdgroup_float8x8 _e1480 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_, b6_, _e1480);
                metal::simdgroup_float8x8 _e1482 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_, b6_, _e1482);
                metal::simdgroup_float8x8 _e1484 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_, b6_, _e1484);
                metal::simdgroup_half8x8 b7_ = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 0u], 72u, true);
                metal::simdgroup_float8x8 _e1496 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_2, b7_, _e1496);
                metal::simdgroup_float8x8 _e1498 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_, b7_, _e1498);
                metal::simdgroup_float8x8 _e1500 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_, b7_, _e1500);
                metal::simdgroup_float8x8 _e1502 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_, b7_, _e1502);
            }
            {
                metal::simdgroup_half8x8 a0_3 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 8u], 72u, false);
                metal::simdgroup_half8x8 a1_1 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 8u], 72u, false);
                metal::simdgroup_half8x8 a2_1 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 8u], 72u, false);
                metal::simdgroup_half8x8 a3_1 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 8u], 72u, false);
                metal::simdgroup_half8x8 b0_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1554 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_3, b0_2, _e1554);
                metal::simdgroup_float8x8 _e1556 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_1, b0_2, _e1556);
                metal::simdgroup_float8x8 _e1558 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_1, b0_2, _e1558);
                metal::simdgroup_float8x8 _e1560 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_1, b0_2, _e1560);
                metal::simdgroup_half8x8 b1_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1572 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_3, b1_1, _e1572);
                metal::simdgroup_float8x8 _e1574 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_1, b1_1, _e1574);
                metal::simdgroup_float8x8 _e1576 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_1, b1_1, _e1576);
                metal::simdgroup_float8x8 _e1578 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_1, b1_1, _e1578);
                metal::simdgroup_half8x8 b2_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1590 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_3, b2_1, _e1590);
                metal::simdgroup_float8x8 _e1592 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_1, b2_1, _e1592);
                metal::simdgroup_float8x8 _e1594 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_1, b2_1, _e1594);
                metal::simdgroup_float8x8 _e1596 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_1, b2_1, _e1596);
                metal::simdgroup_half8x8 b3_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1608 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_3, b3_1, _e1608);
                metal::simdgroup_float8x8 _e1610 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_1, b3_1, _e1610);
                metal::simdgroup_float8x8 _e1612 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_1, b3_1, _e1612);
                metal::simdgroup_float8x8 _e1614 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_1, b3_1, _e1614);
                metal::simdgroup_half8x8 b4_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1626 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_3, b4_1, _e1626);
                metal::simdgroup_float8x8 _e1628 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_1, b4_1, _e1628);
                metal::simdgroup_float8x8 _e1630 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_1, b4_1, _e1630);
                metal::simdgroup_float8x8 _e1632 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_1, b4_1, _e1632);
                metal::simdgroup_half8x8 b5_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1644 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_3, b5_1, _e1644);
                metal::simdgroup_float8x8 _e1646 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_1, b5_1, _e1646);
                metal::simdgroup_float8x8 _e1648 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_1, b5_1, _e1648);
                metal::simdgroup_float8x8 _e1650 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_1, b5_1, _e1650);
                metal::simdgroup_half8x8 b6_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1662 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_3, b6_1, _e1662);
                metal::simdgroup_float8x8 _e1664 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_1, b6_1, _e1664);
                metal::simdgroup_float8x8 _e1666 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_1, b6_1, _e1666);
                metal::simdgroup_float8x8 _e1668 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_1, b6_1, _e1668);
                metal::simdgroup_half8x8 b7_1 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 8u], 72u, true);
                metal::simdgroup_float8x8 _e1680 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_3, b7_1, _e1680);
                metal::simdgroup_float8x8 _e1682 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_1, b7_1, _e1682);
                metal::simdgroup_float8x8 _e1684 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_1, b7_1, _e1684);
                metal::simdgroup_float8x8 _e1686 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_1, b7_1, _e1686);
            }
            {
                metal::simdgroup_half8x8 a0_4 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 16u], 72u, false);
                metal::simdgroup_half8x8 a1_2 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 16u], 72u, false);
                metal::simdgroup_half8x8 a2_2 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 16u], 72u, false);
                metal::simdgroup_half8x8 a3_2 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 16u], 72u, false);
                metal::simdgroup_half8x8 b0_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1738 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_4, b0_3, _e1738);
                metal::simdgroup_float8x8 _e1740 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_2, b0_3, _e1740);
                metal::simdgroup_float8x8 _e1742 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_2, b0_3, _e1742);
                metal::simdgroup_float8x8 _e1744 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_2, b0_3, _e1744);
                metal::simdgroup_half8x8 b1_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1756 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_4, b1_2, _e1756);
                metal::simdgroup_float8x8 _e1758 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_2, b1_2, _e1758);
                metal::simdgroup_float8x8 _e1760 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_2, b1_2, _e1760);
                metal::simdgroup_float8x8 _e1762 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_2, b1_2, _e1762);
                metal::simdgroup_half8x8 b2_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1774 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_4, b2_2, _e1774);
                metal::simdgroup_float8x8 _e1776 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_2, b2_2, _e1776);
                metal::simdgroup_float8x8 _e1778 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_2, b2_2, _e1778);
                metal::simdgroup_float8x8 _e1780 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_2, b2_2, _e1780);
                metal::simdgroup_half8x8 b3_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1792 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_4, b3_2, _e1792);
                metal::simdgroup_float8x8 _e1794 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_2, b3_2, _e1794);
                metal::simdgroup_float8x8 _e1796 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_2, b3_2, _e1796);
                metal::simdgroup_float8x8 _e1798 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_2, b3_2, _e1798);
                metal::simdgroup_half8x8 b4_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1810 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_4, b4_2, _e1810);
                metal::simdgroup_float8x8 _e1812 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_2, b4_2, _e1812);
                metal::simdgroup_float8x8 _e1814 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_2, b4_2, _e1814);
                metal::simdgroup_float8x8 _e1816 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_2, b4_2, _e1816);
                metal::simdgroup_half8x8 b5_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1828 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_4, b5_2, _e1828);
                metal::simdgroup_float8x8 _e1830 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_2, b5_2, _e1830);
                metal::simdgroup_float8x8 _e1832 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_2, b5_2, _e1832);
                metal::simdgroup_float8x8 _e1834 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_2, b5_2, _e1834);
                metal::simdgroup_half8x8 b6_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1846 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_4, b6_2, _e1846);
                metal::simdgroup_float8x8 _e1848 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_2, b6_2, _e1848);
                metal::simdgroup_float8x8 _e1850 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_2, b6_2, _e1850);
                metal::simdgroup_float8x8 _e1852 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_2, b6_2, _e1852);
                metal::simdgroup_half8x8 b7_2 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 16u], 72u, true);
                metal::simdgroup_float8x8 _e1864 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_4, b7_2, _e1864);
                metal::simdgroup_float8x8 _e1866 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_2, b7_2, _e1866);
                metal::simdgroup_float8x8 _e1868 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_2, b7_2, _e1868);
                metal::simdgroup_float8x8 _e1870 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_2, b7_2, _e1870);
            }
            {
                metal::simdgroup_half8x8 a0_5 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 24u], 72u, false);
                metal::simdgroup_half8x8 a1_3 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 24u], 72u, false);
                metal::simdgroup_half8x8 a2_3 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 24u], 72u, false);
                metal::simdgroup_half8x8 a3_3 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 24u], 72u, false);
                metal::simdgroup_half8x8 b0_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e1922 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_5, b0_4, _e1922);
                metal::simdgroup_float8x8 _e1924 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_3, b0_4, _e1924);
                metal::simdgroup_float8x8 _e1926 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_3, b0_4, _e1926);
                metal::simdgroup_float8x8 _e1928 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_3, b0_4, _e1928);
                metal::simdgroup_half8x8 b1_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e1940 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_5, b1_3, _e1940);
                metal::simdgroup_float8x8 _e1942 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_3, b1_3, _e1942);
                metal::simdgroup_float8x8 _e1944 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_3, b1_3, _e1944);
                metal::simdgroup_float8x8 _e1946 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_3, b1_3, _e1946);
                metal::simdgroup_half8x8 b2_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e1958 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_5, b2_3, _e1958);
                metal::simdgroup_float8x8 _e1960 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_3, b2_3, _e1960);
                metal::simdgroup_float8x8 _e1962 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_3, b2_3, _e1962);
                metal::simdgroup_float8x8 _e1964 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_3, b2_3, _e1964);
                metal::simdgroup_half8x8 b3_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e1976 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_5, b3_3, _e1976);
                metal::simdgroup_float8x8 _e1978 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_3, b3_3, _e1978);
                metal::simdgroup_float8x8 _e1980 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_3, b3_3, _e1980);
                metal::simdgroup_float8x8 _e1982 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_3, b3_3, _e1982);
                metal::simdgroup_half8x8 b4_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e1994 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_5, b4_3, _e1994);
                metal::simdgroup_float8x8 _e1996 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_3, b4_3, _e1996);
                metal::simdgroup_float8x8 _e1998 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_3, b4_3, _e1998);
                metal::simdgroup_float8x8 _e2000 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_3, b4_3, _e2000);
                metal::simdgroup_half8x8 b5_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e2012 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_5, b5_3, _e2012);
                metal::simdgroup_float8x8 _e2014 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_3, b5_3, _e2014);
                metal::simdgroup_float8x8 _e2016 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_3, b5_3, _e2016);
                metal::simdgroup_float8x8 _e2018 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_3, b5_3, _e2018);
                metal::simdgroup_half8x8 b6_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e2030 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_5, b6_3, _e2030);
                metal::simdgroup_float8x8 _e2032 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_3, b6_3, _e2032);
                metal::simdgroup_float8x8 _e2034 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_3, b6_3, _e2034);
                metal::simdgroup_float8x8 _e2036 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_3, b6_3, _e2036);
                metal::simdgroup_half8x8 b7_3 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 24u], 72u, true);
                metal::simdgroup_float8x8 _e2048 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_5, b7_3, _e2048);
                metal::simdgroup_float8x8 _e2050 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_3, b7_3, _e2050);
                metal::simdgroup_float8x8 _e2052 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_3, b7_3, _e2052);
                metal::simdgroup_float8x8 _e2054 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_3, b7_3, _e2054);
            }
            {
                metal::simdgroup_half8x8 a0_6 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 32u], 72u, false);
                metal::simdgroup_half8x8 a1_4 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 32u], 72u, false);
                metal::simdgroup_half8x8 a2_4 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 32u], 72u, false);
                metal::simdgroup_half8x8 a3_4 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 32u], 72u, false);
                metal::simdgroup_half8x8 b0_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2106 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_6, b0_5, _e2106);
                metal::simdgroup_float8x8 _e2108 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_4, b0_5, _e2108);
                metal::simdgroup_float8x8 _e2110 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_4, b0_5, _e2110);
                metal::simdgroup_float8x8 _e2112 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_4, b0_5, _e2112);
                metal::simdgroup_half8x8 b1_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2124 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_6, b1_4, _e2124);
                metal::simdgroup_float8x8 _e2126 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_4, b1_4, _e2126);
                metal::simdgroup_float8x8 _e2128 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_4, b1_4, _e2128);
                metal::simdgroup_float8x8 _e2130 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_4, b1_4, _e2130);
                metal::simdgroup_half8x8 b2_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2142 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_6, b2_4, _e2142);
                metal::simdgroup_float8x8 _e2144 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_4, b2_4, _e2144);
                metal::simdgroup_float8x8 _e2146 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_4, b2_4, _e2146);
                metal::simdgroup_float8x8 _e2148 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_4, b2_4, _e2148);
                metal::simdgroup_half8x8 b3_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2160 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_6, b3_4, _e2160);
                metal::simdgroup_float8x8 _e2162 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_4, b3_4, _e2162);
                metal::simdgroup_float8x8 _e2164 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_4, b3_4, _e2164);
                metal::simdgroup_float8x8 _e2166 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_4, b3_4, _e2166);
                metal::simdgroup_half8x8 b4_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2178 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_6, b4_4, _e2178);
                metal::simdgroup_float8x8 _e2180 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_4, b4_4, _e2180);
                metal::simdgroup_float8x8 _e2182 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_4, b4_4, _e2182);
                metal::simdgroup_float8x8 _e2184 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_4, b4_4, _e2184);
                metal::simdgroup_half8x8 b5_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2196 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_6, b5_4, _e2196);
                metal::simdgroup_float8x8 _e2198 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_4, b5_4, _e2198);
                metal::simdgroup_float8x8 _e2200 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_4, b5_4, _e2200);
                metal::simdgroup_float8x8 _e2202 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_4, b5_4, _e2202);
                metal::simdgroup_half8x8 b6_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2214 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_6, b6_4, _e2214);
                metal::simdgroup_float8x8 _e2216 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_4, b6_4, _e2216);
                metal::simdgroup_float8x8 _e2218 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_4, b6_4, _e2218);
                metal::simdgroup_float8x8 _e2220 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_4, b6_4, _e2220);
                metal::simdgroup_half8x8 b7_4 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 32u], 72u, true);
                metal::simdgroup_float8x8 _e2232 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_6, b7_4, _e2232);
                metal::simdgroup_float8x8 _e2234 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_4, b7_4, _e2234);
                metal::simdgroup_float8x8 _e2236 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_4, b7_4, _e2236);
                metal::simdgroup_float8x8 _e2238 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_4, b7_4, _e2238);
            }
            {
                metal::simdgroup_half8x8 a0_7 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 40u], 72u, false);
                metal::simdgroup_half8x8 a1_5 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 40u], 72u, false);
                metal::simdgroup_half8x8 a2_5 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 40u], 72u, false);
                metal::simdgroup_half8x8 a3_5 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 40u], 72u, false);
                metal::simdgroup_half8x8 b0_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2290 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_7, b0_6, _e2290);
                metal::simdgroup_float8x8 _e2292 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_5, b0_6, _e2292);
                metal::simdgroup_float8x8 _e2294 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_5, b0_6, _e2294);
                metal::simdgroup_float8x8 _e2296 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_5, b0_6, _e2296);
                metal::simdgroup_half8x8 b1_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2308 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_7, b1_5, _e2308);
                metal::simdgroup_float8x8 _e2310 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_5, b1_5, _e2310);
                metal::simdgroup_float8x8 _e2312 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_5, b1_5, _e2312);
                metal::simdgroup_float8x8 _e2314 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_5, b1_5, _e2314);
                metal::simdgroup_half8x8 b2_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2326 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_7, b2_5, _e2326);
                metal::simdgroup_float8x8 _e2328 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_5, b2_5, _e2328);
                metal::simdgroup_float8x8 _e2330 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_5, b2_5, _e2330);
                metal::simdgroup_float8x8 _e2332 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_5, b2_5, _e2332);
                metal::simdgroup_half8x8 b3_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2344 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_7, b3_5, _e2344);
                metal::simdgroup_float8x8 _e2346 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_5, b3_5, _e2346);
                metal::simdgroup_float8x8 _e2348 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_5, b3_5, _e2348);
                metal::simdgroup_float8x8 _e2350 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_5, b3_5, _e2350);
                metal::simdgroup_half8x8 b4_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2362 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_7, b4_5, _e2362);
                metal::simdgroup_float8x8 _e2364 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_5, b4_5, _e2364);
                metal::simdgroup_float8x8 _e2366 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_5, b4_5, _e2366);
                metal::simdgroup_float8x8 _e2368 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_5, b4_5, _e2368);
                metal::simdgroup_half8x8 b5_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2380 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_7, b5_5, _e2380);
                metal::simdgroup_float8x8 _e2382 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_5, b5_5, _e2382);
                metal::simdgroup_float8x8 _e2384 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_5, b5_5, _e2384);
                metal::simdgroup_float8x8 _e2386 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_5, b5_5, _e2386);
                metal::simdgroup_half8x8 b6_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2398 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_7, b6_5, _e2398);
                metal::simdgroup_float8x8 _e2400 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_5, b6_5, _e2400);
                metal::simdgroup_float8x8 _e2402 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_5, b6_5, _e2402);
                metal::simdgroup_float8x8 _e2404 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_5, b6_5, _e2404);
                metal::simdgroup_half8x8 b7_5 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 40u], 72u, true);
                metal::simdgroup_float8x8 _e2416 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_7, b7_5, _e2416);
                metal::simdgroup_float8x8 _e2418 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_5, b7_5, _e2418);
                metal::simdgroup_float8x8 _e2420 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_5, b7_5, _e2420);
                metal::simdgroup_float8x8 _e2422 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_5, b7_5, _e2422);
            }
            {
                metal::simdgroup_half8x8 a0_8 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 48u], 72u, false);
                metal::simdgroup_half8x8 a1_6 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 48u], 72u, false);
                metal::simdgroup_half8x8 a2_6 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 48u], 72u, false);
                metal::simdgroup_half8x8 a3_6 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 48u], 72u, false);
                metal::simdgroup_half8x8 b0_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2474 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_8, b0_7, _e2474);
                metal::simdgroup_float8x8 _e2476 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_6, b0_7, _e2476);
                metal::simdgroup_float8x8 _e2478 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_6, b0_7, _e2478);
                metal::simdgroup_float8x8 _e2480 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_6, b0_7, _e2480);
                metal::simdgroup_half8x8 b1_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2492 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_8, b1_6, _e2492);
                metal::simdgroup_float8x8 _e2494 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_6, b1_6, _e2494);
                metal::simdgroup_float8x8 _e2496 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_6, b1_6, _e2496);
                metal::simdgroup_float8x8 _e2498 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_6, b1_6, _e2498);
                metal::simdgroup_half8x8 b2_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2510 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_8, b2_6, _e2510);
                metal::simdgroup_float8x8 _e2512 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_6, b2_6, _e2512);
                metal::simdgroup_float8x8 _e2514 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_6, b2_6, _e2514);
                metal::simdgroup_float8x8 _e2516 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_6, b2_6, _e2516);
                metal::simdgroup_half8x8 b3_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2528 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_8, b3_6, _e2528);
                metal::simdgroup_float8x8 _e2530 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_6, b3_6, _e2530);
                metal::simdgroup_float8x8 _e2532 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_6, b3_6, _e2532);
                metal::simdgroup_float8x8 _e2534 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_6, b3_6, _e2534);
                metal::simdgroup_half8x8 b4_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2546 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_8, b4_6, _e2546);
                metal::simdgroup_float8x8 _e2548 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_6, b4_6, _e2548);
                metal::simdgroup_float8x8 _e2550 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_6, b4_6, _e2550);
                metal::simdgroup_float8x8 _e2552 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_6, b4_6, _e2552);
                metal::simdgroup_half8x8 b5_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2564 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_8, b5_6, _e2564);
                metal::simdgroup_float8x8 _e2566 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_6, b5_6, _e2566);
                metal::simdgroup_float8x8 _e2568 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_6, b5_6, _e2568);
                metal::simdgroup_float8x8 _e2570 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_6, b5_6, _e2570);
                metal::simdgroup_half8x8 b6_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2582 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_8, b6_6, _e2582);
                metal::simdgroup_float8x8 _e2584 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_6, b6_6, _e2584);
                metal::simdgroup_float8x8 _e2586 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_6, b6_6, _e2586);
                metal::simdgroup_float8x8 _e2588 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_6, b6_6, _e2588);
                metal::simdgroup_half8x8 b7_6 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 48u], 72u, true);
                metal::simdgroup_float8x8 _e2600 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_8, b7_6, _e2600);
                metal::simdgroup_float8x8 _e2602 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_6, b7_6, _e2602);
                metal::simdgroup_float8x8 _e2604 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_6, b7_6, _e2604);
                metal::simdgroup_float8x8 _e2606 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_6, b7_6, _e2606);
            }
            {
                metal::simdgroup_half8x8 a0_9 = NagaCooperativeLoad(&xs.inner[((sub_token + 0u) * 72u) + 56u], 72u, false);
                metal::simdgroup_half8x8 a1_7 = NagaCooperativeLoad(&xs.inner[((sub_token + 8u) * 72u) + 56u], 72u, false);
                metal::simdgroup_half8x8 a2_7 = NagaCooperativeLoad(&xs.inner[((sub_token + 16u) * 72u) + 56u], 72u, false);
                metal::simdgroup_half8x8 a3_7 = NagaCooperativeLoad(&xs.inner[((sub_token + 24u) * 72u) + 56u], 72u, false);
                metal::simdgroup_half8x8 b0_8 = NagaCooperativeLoad(&ws.inner[((sub_row + 0u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2658 = c00_;
                c00_ = NagaCooperativeMultiplyAdd(a0_9, b0_8, _e2658);
                metal::simdgroup_float8x8 _e2660 = c10_;
                c10_ = NagaCooperativeMultiplyAdd(a1_7, b0_8, _e2660);
                metal::simdgroup_float8x8 _e2662 = c20_;
                c20_ = NagaCooperativeMultiplyAdd(a2_7, b0_8, _e2662);
                metal::simdgroup_float8x8 _e2664 = c30_;
                c30_ = NagaCooperativeMultiplyAdd(a3_7, b0_8, _e2664);
                metal::simdgroup_half8x8 b1_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 8u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2676 = c01_;
                c01_ = NagaCooperativeMultiplyAdd(a0_9, b1_7, _e2676);
                metal::simdgroup_float8x8 _e2678 = c11_;
                c11_ = NagaCooperativeMultiplyAdd(a1_7, b1_7, _e2678);
                metal::simdgroup_float8x8 _e2680 = c21_;
                c21_ = NagaCooperativeMultiplyAdd(a2_7, b1_7, _e2680);
                metal::simdgroup_float8x8 _e2682 = c31_;
                c31_ = NagaCooperativeMultiplyAdd(a3_7, b1_7, _e2682);
                metal::simdgroup_half8x8 b2_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 16u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2694 = c02_;
                c02_ = NagaCooperativeMultiplyAdd(a0_9, b2_7, _e2694);
                metal::simdgroup_float8x8 _e2696 = c12_;
                c12_ = NagaCooperativeMultiplyAdd(a1_7, b2_7, _e2696);
                metal::simdgroup_float8x8 _e2698 = c22_;
                c22_ = NagaCooperativeMultiplyAdd(a2_7, b2_7, _e2698);
                metal::simdgroup_float8x8 _e2700 = c32_;
                c32_ = NagaCooperativeMultiplyAdd(a3_7, b2_7, _e2700);
                metal::simdgroup_half8x8 b3_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 24u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2712 = c03_;
                c03_ = NagaCooperativeMultiplyAdd(a0_9, b3_7, _e2712);
                metal::simdgroup_float8x8 _e2714 = c13_;
                c13_ = NagaCooperativeMultiplyAdd(a1_7, b3_7, _e2714);
                metal::simdgroup_float8x8 _e2716 = c23_;
                c23_ = NagaCooperativeMultiplyAdd(a2_7, b3_7, _e2716);
                metal::simdgroup_float8x8 _e2718 = c33_;
                c33_ = NagaCooperativeMultiplyAdd(a3_7, b3_7, _e2718);
                metal::simdgroup_half8x8 b4_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 32u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2730 = c04_;
                c04_ = NagaCooperativeMultiplyAdd(a0_9, b4_7, _e2730);
                metal::simdgroup_float8x8 _e2732 = c14_;
                c14_ = NagaCooperativeMultiplyAdd(a1_7, b4_7, _e2732);
                metal::simdgroup_float8x8 _e2734 = c24_;
                c24_ = NagaCooperativeMultiplyAdd(a2_7, b4_7, _e2734);
                metal::simdgroup_float8x8 _e2736 = c34_;
                c34_ = NagaCooperativeMultiplyAdd(a3_7, b4_7, _e2736);
                metal::simdgroup_half8x8 b5_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 40u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2748 = c05_;
                c05_ = NagaCooperativeMultiplyAdd(a0_9, b5_7, _e2748);
                metal::simdgroup_float8x8 _e2750 = c15_;
                c15_ = NagaCooperativeMultiplyAdd(a1_7, b5_7, _e2750);
                metal::simdgroup_float8x8 _e2752 = c25_;
                c25_ = NagaCooperativeMultiplyAdd(a2_7, b5_7, _e2752);
                metal::simdgroup_float8x8 _e2754 = c35_;
                c35_ = NagaCooperativeMultiplyAdd(a3_7, b5_7, _e2754);
                metal::simdgroup_half8x8 b6_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 48u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2766 = c06_;
                c06_ = NagaCooperativeMultiplyAdd(a0_9, b6_7, _e2766);
                metal::simdgroup_float8x8 _e2768 = c16_;
                c16_ = NagaCooperativeMultiplyAdd(a1_7, b6_7, _e2768);
                metal::simdgroup_float8x8 _e2770 = c26_;
                c26_ = NagaCooperativeMultiplyAdd(a2_7, b6_7, _e2770);
                metal::simdgroup_float8x8 _e2772 = c36_;
                c36_ = NagaCooperativeMultiplyAdd(a3_7, b6_7, _e2772);
                metal::simdgroup_half8x8 b7_7 = NagaCooperativeLoad(&ws.inner[((sub_row + 56u) * 72u) + 56u], 72u, true);
                metal::simdgroup_float8x8 _e2784 = c07_;
                c07_ = NagaCooperativeMultiplyAdd(a0_9, b7_7, _e2784);
                metal::simdgroup_float8x8 _e2786 = c17_;
                c17_ = NagaCooperativeMultiplyAdd(a1_7, b7_7, _e2786);
                metal::simdgroup_float8x8 _e2788 = c27_;
                c27_ = NagaCooperativeMultiplyAdd(a2_7, b7_7, _e2788);
                metal::simdgroup_float8x8 _e2790 = c37_;
                c37_ = NagaCooperativeMultiplyAdd(a3_7, b7_7, _e2790);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e2795 = c00_;
    simdgroup_store(_e2795, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e = lid & 31u;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e2859 = e;
            e = _e2859 + 32u;
        }
        loop_init_2 = false;
        uint _e2804 = e;
        if (_e2804 < 64u) {
        } else {
            break;
        }
        {
            uint _e2810 = e;
            uint t_1 = ((first_token + sub_token) + 0u) + naga_div(_e2810, 8u);
            uint _e2817 = e;
            uint r = ((first_row + sub_row) + 0u) + naga_mod(_e2817, 8u);
            uint _e2823 = job.tokens;
            if (t_1 < _e2823) {
                uint _e2829 = job.rows;
                local_1 = r < _e2829;
            } else {
                local_1 = false;
            }
            bool _e2832 = local_1;
            if (_e2832) {
                uint _e2836 = e;
                float value = squares.inner[(subgroup * 64u) + _e2836];
                uint _e2843 = job.y_first;
                uint _e2846 = job.y_stride;
                uint _e2854 = job.bias;
                float _e2857 = vectors[_e2854 + r];
                y[(_e2843 + (t_1 * _e2846)) + r] = value + _e2857;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e2862 = c01_;
    simdgroup_store(_e2862, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_1 = lid & 31u;
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e2926 = e_1;
            e_1 = _e2926 + 32u;
        }
        loop_init_3 = false;
        uint _e2871 = e_1;
        if (_e2871 < 64u) {
        } else {
            break;
        }
        {
            uint _e2877 = e_1;
            uint t_2 = ((first_token + sub_token) + 0u) + naga_div(_e2877, 8u);
            uint _e2884 = e_1;
            uint r_1 = ((first_row + sub_row) + 8u) + naga_mod(_e2884, 8u);
            uint _e2890 = job.tokens;
            if (t_2 < _e2890) {
                uint _e2896 = job.rows;
                local_2 = r_1 < _e2896;
            } else {
                local_2 = false;
            }
            bool _e2899 = local_2;
            if (_e2899) {
                uint _e2903 = e_1;
                float value_1 = squares.inner[(subgroup * 64u) + _e2903];
                uint _e2910 = job.y_first;
                uint _e2913 = job.y_stride;
                uint _e2921 = job.bias;
                float _e2924 = vectors[_e2921 + r_1];
                y[(_e2910 + (t_2 * _e2913)) + r_1] = value_1 + _e2924;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e2929 = c02_;
    simdgroup_store(_e2929, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_2 = lid & 31u;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e2993 = e_2;
            e_2 = _e2993 + 32u;
        }
        loop_init_4 = false;
        uint _e2938 = e_2;
        if (_e2938 < 64u) {
        } else {
            break;
        }
        {
            uint _e2944 = e_2;
            uint t_3 = ((first_token + sub_token) + 0u) + naga_div(_e2944, 8u);
            uint _e2951 = e_2;
            uint r_2 = ((first_row + sub_row) + 16u) + naga_mod(_e2951, 8u);
            uint _e2957 = job.tokens;
            if (t_3 < _e2957) {
                uint _e2963 = job.rows;
                local_3 = r_2 < _e2963;
            } else {
                local_3 = false;
            }
            bool _e2966 = local_3;
            if (_e2966) {
                uint _e2970 = e_2;
                float value_2 = squares.inner[(subgroup * 64u) + _e2970];
                uint _e2977 = job.y_first;
                uint _e2980 = job.y_stride;
                uint _e2988 = job.bias;
                float _e2991 = vectors[_e2988 + r_2];
                y[(_e2977 + (t_3 * _e2980)) + r_2] = value_2 + _e2991;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e2996 = c03_;
    simdgroup_store(_e2996, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_3 = lid & 31u;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e3060 = e_3;
            e_3 = _e3060 + 32u;
        }
        loop_init_5 = false;
        uint _e3005 = e_3;
        if (_e3005 < 64u) {
        } else {
            break;
        }
        {
            uint _e3011 = e_3;
            uint t_4 = ((first_token + sub_token) + 0u) + naga_div(_e3011, 8u);
            uint _e3018 = e_3;
            uint r_3 = ((first_row + sub_row) + 24u) + naga_mod(_e3018, 8u);
            uint _e3024 = job.tokens;
            if (t_4 < _e3024) {
                uint _e3030 = job.rows;
                local_4 = r_3 < _e3030;
            } else {
                local_4 = false;
            }
            bool _e3033 = local_4;
            if (_e3033) {
                uint _e3037 = e_3;
                float value_3 = squares.inner[(subgroup * 64u) + _e3037];
                uint _e3044 = job.y_first;
                uint _e3047 = job.y_stride;
                uint _e3055 = job.bias;
                float _e3058 = vectors[_e3055 + r_3];
                y[(_e3044 + (t_4 * _e3047)) + r_3] = value_3 + _e3058;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3063 = c04_;
    simdgroup_store(_e3063, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_4 = lid & 31u;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e3127 = e_4;
            e_4 = _e3127 + 32u;
        }
        loop_init_6 = false;
        uint _e3072 = e_4;
        if (_e3072 < 64u) {
        } else {
            break;
        }
        {
            uint _e3078 = e_4;
            uint t_5 = ((first_token + sub_token) + 0u) + naga_div(_e3078, 8u);
            uint _e3085 = e_4;
            uint r_4 = ((first_row + sub_row) + 32u) + naga_mod(_e3085, 8u);
            uint _e3091 = job.tokens;
            if (t_5 < _e3091) {
                uint _e3097 = job.rows;
                local_5 = r_4 < _e3097;
            } else {
                local_5 = false;
            }
            bool _e3100 = local_5;
            if (_e3100) {
                uint _e3104 = e_4;
                float value_4 = squares.inner[(subgroup * 64u) + _e3104];
                uint _e3111 = job.y_first;
                uint _e3114 = job.y_stride;
                uint _e3122 = job.bias;
                float _e3125 = vectors[_e3122 + r_4];
                y[(_e3111 + (t_5 * _e3114)) + r_4] = value_4 + _e3125;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3130 = c05_;
    simdgroup_store(_e3130, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_5 = lid & 31u;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e3194 = e_5;
            e_5 = _e3194 + 32u;
        }
        loop_init_7 = false;
        uint _e3139 = e_5;
        if (_e3139 < 64u) {
        } else {
            break;
        }
        {
            uint _e3145 = e_5;
            uint t_6 = ((first_token + sub_token) + 0u) + naga_div(_e3145, 8u);
            uint _e3152 = e_5;
            uint r_5 = ((first_row + sub_row) + 40u) + naga_mod(_e3152, 8u);
            uint _e3158 = job.tokens;
            if (t_6 < _e3158) {
                uint _e3164 = job.rows;
                local_6 = r_5 < _e3164;
            } else {
                local_6 = false;
            }
            bool _e3167 = local_6;
            if (_e3167) {
                uint _e3171 = e_5;
                float value_5 = squares.inner[(subgroup * 64u) + _e3171];
                uint _e3178 = job.y_first;
                uint _e3181 = job.y_stride;
                uint _e3189 = job.bias;
                float _e3192 = vectors[_e3189 + r_5];
                y[(_e3178 + (t_6 * _e3181)) + r_5] = value_5 + _e3192;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3197 = c06_;
    simdgroup_store(_e3197, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_6 = lid & 31u;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e3261 = e_6;
            e_6 = _e3261 + 32u;
        }
        loop_init_8 = false;
        uint _e3206 = e_6;
        if (_e3206 < 64u) {
        } else {
            break;
        }
        {
            uint _e3212 = e_6;
            uint t_7 = ((first_token + sub_token) + 0u) + naga_div(_e3212, 8u);
            uint _e3219 = e_6;
            uint r_6 = ((first_row + sub_row) + 48u) + naga_mod(_e3219, 8u);
            uint _e3225 = job.tokens;
            if (t_7 < _e3225) {
                uint _e3231 = job.rows;
                local_7 = r_6 < _e3231;
            } else {
                local_7 = false;
            }
            bool _e3234 = local_7;
            if (_e3234) {
                uint _e3238 = e_6;
                float value_6 = squares.inner[(subgroup * 64u) + _e3238];
                uint _e3245 = job.y_first;
                uint _e3248 = job.y_stride;
                uint _e3256 = job.bias;
                float _e3259 = vectors[_e3256 + r_6];
                y[(_e3245 + (t_7 * _e3248)) + r_6] = value_6 + _e3259;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3264 = c07_;
    simdgroup_store(_e3264, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_7 = lid & 31u;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e3328 = e_7;
            e_7 = _e3328 + 32u;
        }
        loop_init_9 = false;
        uint _e3273 = e_7;
        if (_e3273 < 64u) {
        } else {
            break;
        }
        {
            uint _e3279 = e_7;
            uint t_8 = ((first_token + sub_token) + 0u) + naga_div(_e3279, 8u);
            uint _e3286 = e_7;
            uint r_7 = ((first_row + sub_row) + 56u) + naga_mod(_e3286, 8u);
            uint _e3292 = job.tokens;
            if (t_8 < _e3292) {
                uint _e3298 = job.rows;
                local_8 = r_7 < _e3298;
            } else {
                local_8 = false;
            }
            bool _e3301 = local_8;
            if (_e3301) {
                uint _e3305 = e_7;
                float value_7 = squares.inner[(subgroup * 64u) + _e3305];
                uint _e3312 = job.y_first;
                uint _e3315 = job.y_stride;
                uint _e3323 = job.bias;
                float _e3326 = vectors[_e3323 + r_7];
                y[(_e3312 + (t_8 * _e3315)) + r_7] = value_7 + _e3326;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3331 = c10_;
    simdgroup_store(_e3331, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_8 = lid & 31u;
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e3395 = e_8;
            e_8 = _e3395 + 32u;
        }
        loop_init_10 = false;
        uint _e3340 = e_8;
        if (_e3340 < 64u) {
        } else {
            break;
        }
        {
            uint _e3346 = e_8;
            uint t_9 = ((first_token + sub_token) + 8u) + naga_div(_e3346, 8u);
            uint _e3353 = e_8;
            uint r_8 = ((first_row + sub_row) + 0u) + naga_mod(_e3353, 8u);
            uint _e3359 = job.tokens;
            if (t_9 < _e3359) {
                uint _e3365 = job.rows;
                local_9 = r_8 < _e3365;
            } else {
                local_9 = false;
            }
            bool _e3368 = local_9;
            if (_e3368) {
                uint _e3372 = e_8;
                float value_8 = squares.inner[(subgroup * 64u) + _e3372];
                uint _e3379 = job.y_first;
                uint _e3382 = job.y_stride;
                uint _e3390 = job.bias;
                float _e3393 = vectors[_e3390 + r_8];
                y[(_e3379 + (t_9 * _e3382)) + r_8] = value_8 + _e3393;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3398 = c11_;
    simdgroup_store(_e3398, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_9 = lid & 31u;
    uint2 loop_bound_11 = uint2(4294967295u);
    bool loop_init_11 = true;
    while(true) {
        if (metal::all(loop_bound_11 == uint2(0u))) { break; }
        loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
        if (!loop_init_11) {
            uint _e3462 = e_9;
            e_9 = _e3462 + 32u;
        }
        loop_init_11 = false;
        uint _e3407 = e_9;
        if (_e3407 < 64u) {
        } else {
            break;
        }
        {
            uint _e3413 = e_9;
            uint t_10 = ((first_token + sub_token) + 8u) + naga_div(_e3413, 8u);
            uint _e3420 = e_9;
            uint r_9 = ((first_row + sub_row) + 8u) + naga_mod(_e3420, 8u);
            uint _e3426 = job.tokens;
            if (t_10 < _e3426) {
                uint _e3432 = job.rows;
                local_10 = r_9 < _e3432;
            } else {
                local_10 = false;
            }
            bool _e3435 = local_10;
            if (_e3435) {
                uint _e3439 = e_9;
                float value_9 = squares.inner[(subgroup * 64u) + _e3439];
                uint _e3446 = job.y_first;
                uint _e3449 = job.y_stride;
                uint _e3457 = job.bias;
                float _e3460 = vectors[_e3457 + r_9];
                y[(_e3446 + (t_10 * _e3449)) + r_9] = value_9 + _e3460;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3465 = c12_;
    simdgroup_store(_e3465, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_10 = lid & 31u;
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e3529 = e_10;
            e_10 = _e3529 + 32u;
        }
        loop_init_12 = false;
        uint _e3474 = e_10;
        if (_e3474 < 64u) {
        } else {
            break;
        }
        {
            uint _e3480 = e_10;
            uint t_11 = ((first_token + sub_token) + 8u) + naga_div(_e3480, 8u);
            uint _e3487 = e_10;
            uint r_10 = ((first_row + sub_row) + 16u) + naga_mod(_e3487, 8u);
            uint _e3493 = job.tokens;
            if (t_11 < _e3493) {
                uint _e3499 = job.rows;
                local_11 = r_10 < _e3499;
            } else {
                local_11 = false;
            }
            bool _e3502 = local_11;
            if (_e3502) {
                uint _e3506 = e_10;
                float value_10 = squares.inner[(subgroup * 64u) + _e3506];
                uint _e3513 = job.y_first;
                uint _e3516 = job.y_stride;
                uint _e3524 = job.bias;
                float _e3527 = vectors[_e3524 + r_10];
                y[(_e3513 + (t_11 * _e3516)) + r_10] = value_10 + _e3527;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3532 = c13_;
    simdgroup_store(_e3532, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_11 = lid & 31u;
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e3596 = e_11;
            e_11 = _e3596 + 32u;
        }
        loop_init_13 = false;
        uint _e3541 = e_11;
        if (_e3541 < 64u) {
        } else {
            break;
        }
        {
            uint _e3547 = e_11;
            uint t_12 = ((first_token + sub_token) + 8u) + naga_div(_e3547, 8u);
            uint _e3554 = e_11;
            uint r_11 = ((first_row + sub_row) + 24u) + naga_mod(_e3554, 8u);
            uint _e3560 = job.tokens;
            if (t_12 < _e3560) {
                uint _e3566 = job.rows;
                local_12 = r_11 < _e3566;
            } else {
                local_12 = false;
            }
            bool _e3569 = local_12;
            if (_e3569) {
                uint _e3573 = e_11;
                float value_11 = squares.inner[(subgroup * 64u) + _e3573];
                uint _e3580 = job.y_first;
                uint _e3583 = job.y_stride;
                uint _e3591 = job.bias;
                float _e3594 = vectors[_e3591 + r_11];
                y[(_e3580 + (t_12 * _e3583)) + r_11] = value_11 + _e3594;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3599 = c14_;
    simdgroup_store(_e3599, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_12 = lid & 31u;
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e3663 = e_12;
            e_12 = _e3663 + 32u;
        }
        loop_init_14 = false;
        uint _e3608 = e_12;
        if (_e3608 < 64u) {
        } else {
            break;
        }
        {
            uint _e3614 = e_12;
            uint t_13 = ((first_token + sub_token) + 8u) + naga_div(_e3614, 8u);
            uint _e3621 = e_12;
            uint r_12 = ((first_row + sub_row) + 32u) + naga_mod(_e3621, 8u);
            uint _e3627 = job.tokens;
            if (t_13 < _e3627) {
                uint _e3633 = job.rows;
                local_13 = r_12 < _e3633;
            } else {
                local_13 = false;
            }
            bool _e3636 = local_13;
            if (_e3636) {
                uint _e3640 = e_12;
                float value_12 = squares.inner[(subgroup * 64u) + _e3640];
                uint _e3647 = job.y_first;
                uint _e3650 = job.y_stride;
                uint _e3658 = job.bias;
                float _e3661 = vectors[_e3658 + r_12];
                y[(_e3647 + (t_13 * _e3650)) + r_12] = value_12 + _e3661;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3666 = c15_;
    simdgroup_store(_e3666, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_13 = lid & 31u;
    uint2 loop_bound_15 = uint2(4294967295u);
    bool loop_init_15 = true;
    while(true) {
        if (metal::all(loop_bound_15 == uint2(0u))) { break; }
        loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
        if (!loop_init_15) {
            uint _e3730 = e_13;
            e_13 = _e3730 + 32u;
        }
        loop_init_15 = false;
        uint _e3675 = e_13;
        if (_e3675 < 64u) {
        } else {
            break;
        }
        {
            uint _e3681 = e_13;
            uint t_14 = ((first_token + sub_token) + 8u) + naga_div(_e3681, 8u);
            uint _e3688 = e_13;
            uint r_13 = ((first_row + sub_row) + 40u) + naga_mod(_e3688, 8u);
            uint _e3694 = job.tokens;
            if (t_14 < _e3694) {
                uint _e3700 = job.rows;
                local_14 = r_13 < _e3700;
            } else {
                local_14 = false;
            }
            bool _e3703 = local_14;
            if (_e3703) {
                uint _e3707 = e_13;
                float value_13 = squares.inner[(subgroup * 64u) + _e3707];
                uint _e3714 = job.y_first;
                uint _e3717 = job.y_stride;
                uint _e3725 = job.bias;
                float _e3728 = vectors[_e3725 + r_13];
                y[(_e3714 + (t_14 * _e3717)) + r_13] = value_13 + _e3728;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3733 = c16_;
    simdgroup_store(_e3733, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_14 = lid & 31u;
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e3797 = e_14;
            e_14 = _e3797 + 32u;
        }
        loop_init_16 = false;
        uint _e3742 = e_14;
        if (_e3742 < 64u) {
        } else {
            break;
        }
        {
            uint _e3748 = e_14;
            uint t_15 = ((first_token + sub_token) + 8u) + naga_div(_e3748, 8u);
            uint _e3755 = e_14;
            uint r_14 = ((first_row + sub_row) + 48u) + naga_mod(_e3755, 8u);
            uint _e3761 = job.tokens;
            if (t_15 < _e3761) {
                uint _e3767 = job.rows;
                local_15 = r_14 < _e3767;
            } else {
                local_15 = false;
            }
            bool _e3770 = local_15;
            if (_e3770) {
                uint _e3774 = e_14;
                float value_14 = squares.inner[(subgroup * 64u) + _e3774];
                uint _e3781 = job.y_first;
                uint _e3784 = job.y_stride;
                uint _e3792 = job.bias;
                float _e3795 = vectors[_e3792 + r_14];
                y[(_e3781 + (t_15 * _e3784)) + r_14] = value_14 + _e3795;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3800 = c17_;
    simdgroup_store(_e3800, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_15 = lid & 31u;
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e3864 = e_15;
            e_15 = _e3864 + 32u;
        }
        loop_init_17 = false;
        uint _e3809 = e_15;
        if (_e3809 < 64u) {
        } else {
            break;
        }
        {
            uint _e3815 = e_15;
            uint t_16 = ((first_token + sub_token) + 8u) + naga_div(_e3815, 8u);
            uint _e3822 = e_15;
            uint r_15 = ((first_row + sub_row) + 56u) + naga_mod(_e3822, 8u);
            uint _e3828 = job.tokens;
            if (t_16 < _e3828) {
                uint _e3834 = job.rows;
                local_16 = r_15 < _e3834;
            } else {
                local_16 = false;
            }
            bool _e3837 = local_16;
            if (_e3837) {
                uint _e3841 = e_15;
                float value_15 = squares.inner[(subgroup * 64u) + _e3841];
                uint _e3848 = job.y_first;
                uint _e3851 = job.y_stride;
                uint _e3859 = job.bias;
                float _e3862 = vectors[_e3859 + r_15];
                y[(_e3848 + (t_16 * _e3851)) + r_15] = value_15 + _e3862;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3867 = c20_;
    simdgroup_store(_e3867, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_16 = lid & 31u;
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e3931 = e_16;
            e_16 = _e3931 + 32u;
        }
        loop_init_18 = false;
        uint _e3876 = e_16;
        if (_e3876 < 64u) {
        } else {
            break;
        }
        {
            uint _e3882 = e_16;
            uint t_17 = ((first_token + sub_token) + 16u) + naga_div(_e3882, 8u);
            uint _e3889 = e_16;
            uint r_16 = ((first_row + sub_row) + 0u) + naga_mod(_e3889, 8u);
            uint _e3895 = job.tokens;
            if (t_17 < _e3895) {
                uint _e3901 = job.rows;
                local_17 = r_16 < _e3901;
            } else {
                local_17 = false;
            }
            bool _e3904 = local_17;
            if (_e3904) {
                uint _e3908 = e_16;
                float value_16 = squares.inner[(subgroup * 64u) + _e3908];
                uint _e3915 = job.y_first;
                uint _e3918 = job.y_stride;
                uint _e3926 = job.bias;
                float _e3929 = vectors[_e3926 + r_16];
                y[(_e3915 + (t_17 * _e3918)) + r_16] = value_16 + _e3929;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e3934 = c21_;
    simdgroup_store(_e3934, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_17 = lid & 31u;
    uint2 loop_bound_19 = uint2(4294967295u);
    bool loop_init_19 = true;
    while(true) {
        if (metal::all(loop_bound_19 == uint2(0u))) { break; }
        loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
        if (!loop_init_19) {
            uint _e3998 = e_17;
            e_17 = _e3998 + 32u;
        }
        loop_init_19 = false;
        uint _e3943 = e_17;
        if (_e3943 < 64u) {
        } else {
            break;
        }
        {
            uint _e3949 = e_17;
            uint t_18 = ((first_token + sub_token) + 16u) + naga_div(_e3949, 8u);
            uint _e3956 = e_17;
            uint r_17 = ((first_row + sub_row) + 8u) + naga_mod(_e3956, 8u);
            uint _e3962 = job.tokens;
            if (t_18 < _e3962) {
                uint _e3968 = job.rows;
                local_18 = r_17 < _e3968;
            } else {
                local_18 = false;
            }
            bool _e3971 = local_18;
            if (_e3971) {
                uint _e3975 = e_17;
                float value_17 = squares.inner[(subgroup * 64u) + _e3975];
                uint _e3982 = job.y_first;
                uint _e3985 = job.y_stride;
                uint _e3993 = job.bias;
                float _e3996 = vectors[_e3993 + r_17];
                y[(_e3982 + (t_18 * _e3985)) + r_17] = value_17 + _e3996;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4001 = c22_;
    simdgroup_store(_e4001, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_18 = lid & 31u;
    uint2 loop_bound_20 = uint2(4294967295u);
    bool loop_init_20 = true;
    while(true) {
        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
        if (!loop_init_20) {
            uint _e4065 = e_18;
            e_18 = _e4065 + 32u;
        }
        loop_init_20 = false;
        uint _e4010 = e_18;
        if (_e4010 < 64u) {
        } else {
            break;
        }
        {
            uint _e4016 = e_18;
            uint t_19 = ((first_token + sub_token) + 16u) + naga_div(_e4016, 8u);
            uint _e4023 = e_18;
            uint r_18 = ((first_row + sub_row) + 16u) + naga_mod(_e4023, 8u);
            uint _e4029 = job.tokens;
            if (t_19 < _e4029) {
                uint _e4035 = job.rows;
                local_19 = r_18 < _e4035;
            } else {
                local_19 = false;
            }
            bool _e4038 = local_19;
            if (_e4038) {
                uint _e4042 = e_18;
                float value_18 = squares.inner[(subgroup * 64u) + _e4042];
                uint _e4049 = job.y_first;
                uint _e4052 = job.y_stride;
                uint _e4060 = job.bias;
                float _e4063 = vectors[_e4060 + r_18];
                y[(_e4049 + (t_19 * _e4052)) + r_18] = value_18 + _e4063;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4068 = c23_;
    simdgroup_store(_e4068, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_19 = lid & 31u;
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e4132 = e_19;
            e_19 = _e4132 + 32u;
        }
        loop_init_21 = false;
        uint _e4077 = e_19;
        if (_e4077 < 64u) {
        } else {
            break;
        }
        {
            uint _e4083 = e_19;
            uint t_20 = ((first_token + sub_token) + 16u) + naga_div(_e4083, 8u);
            uint _e4090 = e_19;
            uint r_19 = ((first_row + sub_row) + 24u) + naga_mod(_e4090, 8u);
            uint _e4096 = job.tokens;
            if (t_20 < _e4096) {
                uint _e4102 = job.rows;
                local_20 = r_19 < _e4102;
            } else {
                local_20 = false;
            }
            bool _e4105 = local_20;
            if (_e4105) {
                uint _e4109 = e_19;
                float value_19 = squares.inner[(subgroup * 64u) + _e4109];
                uint _e4116 = job.y_first;
                uint _e4119 = job.y_stride;
                uint _e4127 = job.bias;
                float _e4130 = vectors[_e4127 + r_19];
                y[(_e4116 + (t_20 * _e4119)) + r_19] = value_19 + _e4130;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4135 = c24_;
    simdgroup_store(_e4135, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_20 = lid & 31u;
    uint2 loop_bound_22 = uint2(4294967295u);
    bool loop_init_22 = true;
    while(true) {
        if (metal::all(loop_bound_22 == uint2(0u))) { break; }
        loop_bound_22 -= uint2(loop_bound_22.y == 0u, 1u);
        if (!loop_init_22) {
            uint _e4199 = e_20;
            e_20 = _e4199 + 32u;
        }
        loop_init_22 = false;
        uint _e4144 = e_20;
        if (_e4144 < 64u) {
        } else {
            break;
        }
        {
            uint _e4150 = e_20;
            uint t_21 = ((first_token + sub_token) + 16u) + naga_div(_e4150, 8u);
            uint _e4157 = e_20;
            uint r_20 = ((first_row + sub_row) + 32u) + naga_mod(_e4157, 8u);
            uint _e4163 = job.tokens;
            if (t_21 < _e4163) {
                uint _e4169 = job.rows;
                local_21 = r_20 < _e4169;
            } else {
                local_21 = false;
            }
            bool _e4172 = local_21;
            if (_e4172) {
                uint _e4176 = e_20;
                float value_20 = squares.inner[(subgroup * 64u) + _e4176];
                uint _e4183 = job.y_first;
                uint _e4186 = job.y_stride;
                uint _e4194 = job.bias;
                float _e4197 = vectors[_e4194 + r_20];
                y[(_e4183 + (t_21 * _e4186)) + r_20] = value_20 + _e4197;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4202 = c25_;
    simdgroup_store(_e4202, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_21 = lid & 31u;
    uint2 loop_bound_23 = uint2(4294967295u);
    bool loop_init_23 = true;
    while(true) {
        if (metal::all(loop_bound_23 == uint2(0u))) { break; }
        loop_bound_23 -= uint2(loop_bound_23.y == 0u, 1u);
        if (!loop_init_23) {
            uint _e4266 = e_21;
            e_21 = _e4266 + 32u;
        }
        loop_init_23 = false;
        uint _e4211 = e_21;
        if (_e4211 < 64u) {
        } else {
            break;
        }
        {
            uint _e4217 = e_21;
            uint t_22 = ((first_token + sub_token) + 16u) + naga_div(_e4217, 8u);
            uint _e4224 = e_21;
            uint r_21 = ((first_row + sub_row) + 40u) + naga_mod(_e4224, 8u);
            uint _e4230 = job.tokens;
            if (t_22 < _e4230) {
                uint _e4236 = job.rows;
                local_22 = r_21 < _e4236;
            } else {
                local_22 = false;
            }
            bool _e4239 = local_22;
            if (_e4239) {
                uint _e4243 = e_21;
                float value_21 = squares.inner[(subgroup * 64u) + _e4243];
                uint _e4250 = job.y_first;
                uint _e4253 = job.y_stride;
                uint _e4261 = job.bias;
                float _e4264 = vectors[_e4261 + r_21];
                y[(_e4250 + (t_22 * _e4253)) + r_21] = value_21 + _e4264;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4269 = c26_;
    simdgroup_store(_e4269, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_22 = lid & 31u;
    uint2 loop_bound_24 = uint2(4294967295u);
    bool loop_init_24 = true;
    while(true) {
        if (metal::all(loop_bound_24 == uint2(0u))) { break; }
        loop_bound_24 -= uint2(loop_bound_24.y == 0u, 1u);
        if (!loop_init_24) {
            uint _e4333 = e_22;
            e_22 = _e4333 + 32u;
        }
        loop_init_24 = false;
        uint _e4278 = e_22;
        if (_e4278 < 64u) {
        } else {
            break;
        }
        {
            uint _e4284 = e_22;
            uint t_23 = ((first_token + sub_token) + 16u) + naga_div(_e4284, 8u);
            uint _e4291 = e_22;
            uint r_22 = ((first_row + sub_row) + 48u) + naga_mod(_e4291, 8u);
            uint _e4297 = job.tokens;
            if (t_23 < _e4297) {
                uint _e4303 = job.rows;
                local_23 = r_22 < _e4303;
            } else {
                local_23 = false;
            }
            bool _e4306 = local_23;
            if (_e4306) {
                uint _e4310 = e_22;
                float value_22 = squares.inner[(subgroup * 64u) + _e4310];
                uint _e4317 = job.y_first;
                uint _e4320 = job.y_stride;
                uint _e4328 = job.bias;
                float _e4331 = vectors[_e4328 + r_22];
                y[(_e4317 + (t_23 * _e4320)) + r_22] = value_22 + _e4331;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4336 = c27_;
    simdgroup_store(_e4336, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_23 = lid & 31u;
    uint2 loop_bound_25 = uint2(4294967295u);
    bool loop_init_25 = true;
    while(true) {
        if (metal::all(loop_bound_25 == uint2(0u))) { break; }
        loop_bound_25 -= uint2(loop_bound_25.y == 0u, 1u);
        if (!loop_init_25) {
            uint _e4400 = e_23;
            e_23 = _e4400 + 32u;
        }
        loop_init_25 = false;
        uint _e4345 = e_23;
        if (_e4345 < 64u) {
        } else {
            break;
        }
        {
            uint _e4351 = e_23;
            uint t_24 = ((first_token + sub_token) + 16u) + naga_div(_e4351, 8u);
            uint _e4358 = e_23;
            uint r_23 = ((first_row + sub_row) + 56u) + naga_mod(_e4358, 8u);
            uint _e4364 = job.tokens;
            if (t_24 < _e4364) {
                uint _e4370 = job.rows;
                local_24 = r_23 < _e4370;
            } else {
                local_24 = false;
            }
            bool _e4373 = local_24;
            if (_e4373) {
                uint _e4377 = e_23;
                float value_23 = squares.inner[(subgroup * 64u) + _e4377];
                uint _e4384 = job.y_first;
                uint _e4387 = job.y_stride;
                uint _e4395 = job.bias;
                float _e4398 = vectors[_e4395 + r_23];
                y[(_e4384 + (t_24 * _e4387)) + r_23] = value_23 + _e4398;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4403 = c30_;
    simdgroup_store(_e4403, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_24 = lid & 31u;
    uint2 loop_bound_26 = uint2(4294967295u);
    bool loop_init_26 = true;
    while(true) {
        if (metal::all(loop_bound_26 == uint2(0u))) { break; }
        loop_bound_26 -= uint2(loop_bound_26.y == 0u, 1u);
        if (!loop_init_26) {
            uint _e4467 = e_24;
            e_24 = _e4467 + 32u;
        }
        loop_init_26 = false;
        uint _e4412 = e_24;
        if (_e4412 < 64u) {
        } else {
            break;
        }
        {
            uint _e4418 = e_24;
            uint t_25 = ((first_token + sub_token) + 24u) + naga_div(_e4418, 8u);
            uint _e4425 = e_24;
            uint r_24 = ((first_row + sub_row) + 0u) + naga_mod(_e4425, 8u);
            uint _e4431 = job.tokens;
            if (t_25 < _e4431) {
                uint _e4437 = job.rows;
                local_25 = r_24 < _e4437;
            } else {
                local_25 = false;
            }
            bool _e4440 = local_25;
            if (_e4440) {
                uint _e4444 = e_24;
                float value_24 = squares.inner[(subgroup * 64u) + _e4444];
                uint _e4451 = job.y_first;
                uint _e4454 = job.y_stride;
                uint _e4462 = job.bias;
                float _e4465 = vectors[_e4462 + r_24];
                y[(_e4451 + (t_25 * _e4454)) + r_24] = value_24 + _e4465;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4470 = c31_;
    simdgroup_store(_e4470, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_25 = lid & 31u;
    uint2 loop_bound_27 = uint2(4294967295u);
    bool loop_init_27 = true;
    while(true) {
        if (metal::all(loop_bound_27 == uint2(0u))) { break; }
        loop_bound_27 -= uint2(loop_bound_27.y == 0u, 1u);
        if (!loop_init_27) {
            uint _e4534 = e_25;
            e_25 = _e4534 + 32u;
        }
        loop_init_27 = false;
        uint _e4479 = e_25;
        if (_e4479 < 64u) {
        } else {
            break;
        }
        {
            uint _e4485 = e_25;
            uint t_26 = ((first_token + sub_token) + 24u) + naga_div(_e4485, 8u);
            uint _e4492 = e_25;
            uint r_25 = ((first_row + sub_row) + 8u) + naga_mod(_e4492, 8u);
            uint _e4498 = job.tokens;
            if (t_26 < _e4498) {
                uint _e4504 = job.rows;
                local_26 = r_25 < _e4504;
            } else {
                local_26 = false;
            }
            bool _e4507 = local_26;
            if (_e4507) {
                uint _e4511 = e_25;
                float value_25 = squares.inner[(subgroup * 64u) + _e4511];
                uint _e4518 = job.y_first;
                uint _e4521 = job.y_stride;
                uint _e4529 = job.bias;
                float _e4532 = vectors[_e4529 + r_25];
                y[(_e4518 + (t_26 * _e4521)) + r_25] = value_25 + _e4532;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4537 = c32_;
    simdgroup_store(_e4537, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_26 = lid & 31u;
    uint2 loop_bound_28 = uint2(4294967295u);
    bool loop_init_28 = true;
    while(true) {
        if (metal::all(loop_bound_28 == uint2(0u))) { break; }
        loop_bound_28 -= uint2(loop_bound_28.y == 0u, 1u);
        if (!loop_init_28) {
            uint _e4601 = e_26;
            e_26 = _e4601 + 32u;
        }
        loop_init_28 = false;
        uint _e4546 = e_26;
        if (_e4546 < 64u) {
        } else {
            break;
        }
        {
            uint _e4552 = e_26;
            uint t_27 = ((first_token + sub_token) + 24u) + naga_div(_e4552, 8u);
            uint _e4559 = e_26;
            uint r_26 = ((first_row + sub_row) + 16u) + naga_mod(_e4559, 8u);
            uint _e4565 = job.tokens;
            if (t_27 < _e4565) {
                uint _e4571 = job.rows;
                local_27 = r_26 < _e4571;
            } else {
                local_27 = false;
            }
            bool _e4574 = local_27;
            if (_e4574) {
                uint _e4578 = e_26;
                float value_26 = squares.inner[(subgroup * 64u) + _e4578];
                uint _e4585 = job.y_first;
                uint _e4588 = job.y_stride;
                uint _e4596 = job.bias;
                float _e4599 = vectors[_e4596 + r_26];
                y[(_e4585 + (t_27 * _e4588)) + r_26] = value_26 + _e4599;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4604 = c33_;
    simdgroup_store(_e4604, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_27 = lid & 31u;
    uint2 loop_bound_29 = uint2(4294967295u);
    bool loop_init_29 = true;
    while(true) {
        if (metal::all(loop_bound_29 == uint2(0u))) { break; }
        loop_bound_29 -= uint2(loop_bound_29.y == 0u, 1u);
        if (!loop_init_29) {
            uint _e4668 = e_27;
            e_27 = _e4668 + 32u;
        }
        loop_init_29 = false;
        uint _e4613 = e_27;
        if (_e4613 < 64u) {
        } else {
            break;
        }
        {
            uint _e4619 = e_27;
            uint t_28 = ((first_token + sub_token) + 24u) + naga_div(_e4619, 8u);
            uint _e4626 = e_27;
            uint r_27 = ((first_row + sub_row) + 24u) + naga_mod(_e4626, 8u);
            uint _e4632 = job.tokens;
            if (t_28 < _e4632) {
                uint _e4638 = job.rows;
                local_28 = r_27 < _e4638;
            } else {
                local_28 = false;
            }
            bool _e4641 = local_28;
            if (_e4641) {
                uint _e4645 = e_27;
                float value_27 = squares.inner[(subgroup * 64u) + _e4645];
                uint _e4652 = job.y_first;
                uint _e4655 = job.y_stride;
                uint _e4663 = job.bias;
                float _e4666 = vectors[_e4663 + r_27];
                y[(_e4652 + (t_28 * _e4655)) + r_27] = value_27 + _e4666;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4671 = c34_;
    simdgroup_store(_e4671, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_28 = lid & 31u;
    uint2 loop_bound_30 = uint2(4294967295u);
    bool loop_init_30 = true;
    while(true) {
        if (metal::all(loop_bound_30 == uint2(0u))) { break; }
        loop_bound_30 -= uint2(loop_bound_30.y == 0u, 1u);
        if (!loop_init_30) {
            uint _e4735 = e_28;
            e_28 = _e4735 + 32u;
        }
        loop_init_30 = false;
        uint _e4680 = e_28;
        if (_e4680 < 64u) {
        } else {
            break;
        }
        {
            uint _e4686 = e_28;
            uint t_29 = ((first_token + sub_token) + 24u) + naga_div(_e4686, 8u);
            uint _e4693 = e_28;
            uint r_28 = ((first_row + sub_row) + 32u) + naga_mod(_e4693, 8u);
            uint _e4699 = job.tokens;
            if (t_29 < _e4699) {
                uint _e4705 = job.rows;
                local_29 = r_28 < _e4705;
            } else {
                local_29 = false;
            }
            bool _e4708 = local_29;
            if (_e4708) {
                uint _e4712 = e_28;
                float value_28 = squares.inner[(subgroup * 64u) + _e4712];
                uint _e4719 = job.y_first;
                uint _e4722 = job.y_stride;
                uint _e4730 = job.bias;
                float _e4733 = vectors[_e4730 + r_28];
                y[(_e4719 + (t_29 * _e4722)) + r_28] = value_28 + _e4733;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4738 = c35_;
    simdgroup_store(_e4738, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_29 = lid & 31u;
    uint2 loop_bound_31 = uint2(4294967295u);
    bool loop_init_31 = true;
    while(true) {
        if (metal::all(loop_bound_31 == uint2(0u))) { break; }
        loop_bound_31 -= uint2(loop_bound_31.y == 0u, 1u);
        if (!loop_init_31) {
            uint _e4802 = e_29;
            e_29 = _e4802 + 32u;
        }
        loop_init_31 = false;
        uint _e4747 = e_29;
        if (_e4747 < 64u) {
        } else {
            break;
        }
        {
            uint _e4753 = e_29;
            uint t_30 = ((first_token + sub_token) + 24u) + naga_div(_e4753, 8u);
            uint _e4760 = e_29;
            uint r_29 = ((first_row + sub_row) + 40u) + naga_mod(_e4760, 8u);
            uint _e4766 = job.tokens;
            if (t_30 < _e4766) {
                uint _e4772 = job.rows;
                local_30 = r_29 < _e4772;
            } else {
                local_30 = false;
            }
            bool _e4775 = local_30;
            if (_e4775) {
                uint _e4779 = e_29;
                float value_29 = squares.inner[(subgroup * 64u) + _e4779];
                uint _e4786 = job.y_first;
                uint _e4789 = job.y_stride;
                uint _e4797 = job.bias;
                float _e4800 = vectors[_e4797 + r_29];
                y[(_e4786 + (t_30 * _e4789)) + r_29] = value_29 + _e4800;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4805 = c36_;
    simdgroup_store(_e4805, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_30 = lid & 31u;
    uint2 loop_bound_32 = uint2(4294967295u);
    bool loop_init_32 = true;
    while(true) {
        if (metal::all(loop_bound_32 == uint2(0u))) { break; }
        loop_bound_32 -= uint2(loop_bound_32.y == 0u, 1u);
        if (!loop_init_32) {
            uint _e4869 = e_30;
            e_30 = _e4869 + 32u;
        }
        loop_init_32 = false;
        uint _e4814 = e_30;
        if (_e4814 < 64u) {
        } else {
            break;
        }
        {
            uint _e4820 = e_30;
            uint t_31 = ((first_token + sub_token) + 24u) + naga_div(_e4820, 8u);
            uint _e4827 = e_30;
            uint r_30 = ((first_row + sub_row) + 48u) + naga_mod(_e4827, 8u);
            uint _e4833 = job.tokens;
            if (t_31 < _e4833) {
                uint _e4839 = job.rows;
                local_31 = r_30 < _e4839;
            } else {
                local_31 = false;
            }
            bool _e4842 = local_31;
            if (_e4842) {
                uint _e4846 = e_30;
                float value_30 = squares.inner[(subgroup * 64u) + _e4846];
                uint _e4853 = job.y_first;
                uint _e4856 = job.y_stride;
                uint _e4864 = job.bias;
                float _e4867 = vectors[_e4864 + r_30];
                y[(_e4853 + (t_31 * _e4856)) + r_30] = value_30 + _e4867;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::simdgroup_float8x8 _e4872 = c37_;
    simdgroup_store(_e4872, &squares.inner[subgroup * 64u], 8u);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    e_31 = lid & 31u;
    uint2 loop_bound_33 = uint2(4294967295u);
    bool loop_init_33 = true;
    while(true) {
        if (metal::all(loop_bound_33 == uint2(0u))) { break; }
        loop_bound_33 -= uint2(loop_bound_33.y == 0u, 1u);
        if (!loop_init_33) {
            uint _e4936 = e_31;
            e_31 = _e4936 + 32u;
        }
        loop_init_33 = false;
        uint _e4881 = e_31;
        if (_e4881 < 64u) {
        } else {
            break;
        }
        {
            uint _e4887 = e_31;
            uint t_32 = ((first_token + sub_token) + 24u) + naga_div(_e4887, 8u);
            uint _e4894 = e_31;
            uint r_31 = ((first_row + sub_row) + 56u) + naga_mod(_e4894, 8u);
            uint _e4900 = job.tokens;
            if (t_32 < _e4900) {
                uint _e4906 = job.rows;
                local_32 = r_31 < _e4906;
            } else {
                local_32 = false;
            }
            bool _e4909 = local_32;
            if (_e4909) {
                uint _e4913 = e_31;
                float value_31 = squares.inner[(subgroup * 64u) + _e4913];
                uint _e4920 = job.y_first;
                uint _e4923 = job.y_stride;
                uint _e4931 = job.bias;
                float _e4934 = vectors[_e4931 + r_31];
                y[(_e4920 + (t_32 * _e4923)) + r_31] = value_31 + _e4934;
            }
        }
    }
    return;
}
