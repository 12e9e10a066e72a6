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
    uint second;
    uint superblocks;
    uint rows;
    uint x_first;
    uint x_stride;
    uint y_stride;
    uint y_first;
    uint bias;
    uint expert_words;
    uint used;
    uint x_head;
    uint y_head;
    uint first_expert;
    uint end_expert;
};
typedef uint type_1[1];
typedef metal::float4 type_4[1];
typedef float type_5[1];
struct type_6 {
    float inner[256];
};
constant float shift = 0.0;

float error_function(
    float x
) {
    float a = metal::abs(x);
    float t_1 = 1.0 / (1.0 + (0.3275911 * a));
    float p = t_1 * (0.2548296 + (t_1 * (-0.28449672 + (t_1 * (1.4214138 + (t_1 * (-1.4531521 + (t_1 * 1.0614054))))))));
    float y_1 = 1.0 - (p * metal::exp(-(a) * a));
    return (x < 0.0) ? -(y_1) : y_1;
}
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_1 const& w [[user(fake0)]]
, device type_4 const& x_1 [[user(fake0)]]
, device type_5& y [[user(fake0)]]
, device type_5 const& vectors [[user(fake0)]]
, threadgroup type_6& part
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float sum0_0_ = 0.0;
    uint b = {};
    float d0_0_ = {};
    metal::float4 all0_ = {};
    uint o = {};
    float t = {};
    uint k = {};
    uint row = lid & 15u;
    uint slice = lid >> 4u;
    uint first = (group.x + (group.y * 32768u)) * 1u;
    uint y_first = job.y_first;
    uint x_first = job.x_first;
    uint _e22 = job.at;
    uint _e28 = job.rows;
    uint _e37 = job.superblocks;
    uint panel0_ = (0u + _e22) + (metal::min(first + 0u, (_e28 - 1u) >> 4u) * (0u + (_e37 * 144u)));
    b = slice;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e945 = b;
            b = _e945 + 16u;
        }
        loop_init = false;
        uint _e46 = b;
        uint _e49 = job.superblocks;
        if (_e46 < _e49) {
        } else {
            break;
        }
        {
            uint _e53 = b;
            uint at0_ = (panel0_ + 0u) + (_e53 * 144u);
            uint _e64 = w[(at0_ + 0u) + (row >> 1u)];
            float s0_ = float2(as_type<half2>((_e64 >> ((row & 1u) << 4u)))).x;
            uint _e79 = w[(at0_ + 8u) + (row >> 1u)];
            float least0_ = float2(as_type<half2>((_e79 >> ((row & 1u) << 4u)))).x;
            float a0_ = 16.0 * s0_;
            float c0_ = least0_ - (16.0 * s0_);
            d0_0_ = 0.0;
            all0_ = metal::float4 {};
            {
                uint v0_0_ = w[(at0_ + 16u) + row];
                uint v0_1_ = w[(at0_ + 32u) + row];
                uint v0_2_ = w[(at0_ + 48u) + row];
                uint v0_3_ = w[(at0_ + 64u) + row];
                uint _e121 = b;
                uint _e130 = job.x_stride;
                metal::float4 x0_0_ = x_1[((x_first + (_e121 * 16u)) + 0u) + (0u * _e130)];
                metal::float4 _e135 = all0_;
                all0_ = _e135 + x0_0_;
                uint _e138 = b;
                uint _e147 = job.x_stride;
                metal::float4 x0_1_ = x_1[((x_first + (_e138 * 16u)) + 1u) + (0u * _e147)];
                metal::float4 _e152 = all0_;
                all0_ = _e152 + x0_1_;
                uint _e155 = b;
                uint _e164 = job.x_stride;
                metal::float4 x0_2_ = x_1[((x_first + (_e155 * 16u)) + 2u) + (0u * _e164)];
                metal::float4 _e169 = all0_;
                all0_ = _e169 + x0_2_;
                uint _e172 = b;
                uint _e181 = job.x_stride;
                metal::float4 x0_3_ = x_1[((x_first + (_e172 * 16u)) + 3u) + (0u * _e181)];
                metal::float4 _e186 = all0_;
                all0_ = _e186 + x0_3_;
                uint _e189 = b;
                uint _e198 = job.x_stride;
                metal::float4 x0_8_ = x_1[((x_first + (_e189 * 16u)) + 8u) + (0u * _e198)];
                metal::float4 _e203 = all0_;
                all0_ = _e203 + x0_8_;
                uint _e206 = b;
                uint _e215 = job.x_stride;
                metal::float4 x0_9_ = x_1[((x_first + (_e206 * 16u)) + 9u) + (0u * _e215)];
                metal::float4 _e220 = all0_;
                all0_ = _e220 + x0_9_;
                uint _e223 = b;
                uint _e232 = job.x_stride;
                metal::float4 x0_10_ = x_1[((x_first + (_e223 * 16u)) + 10u) + (0u * _e232)];
                metal::float4 _e237 = all0_;
                all0_ = _e237 + x0_10_;
                uint _e240 = b;
                uint _e249 = job.x_stride;
                metal::float4 x0_11_ = x_1[((x_first + (_e240 * 16u)) + 11u) + (0u * _e249)];
                metal::float4 _e254 = all0_;
                all0_ = _e254 + x0_11_;
                metal::float4 f0_0_ = metal::float4(as_type<float>(((v0_0_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 5u) & 7864320u) | 1065353216u));
                float _e285 = d0_0_;
                d0_0_ = _e285 + metal::dot(x0_0_, f0_0_);
                metal::float4 f0_1_ = metal::float4(as_type<float>(((v0_1_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 5u) & 7864320u) | 1065353216u));
                float _e317 = d0_0_;
                d0_0_ = _e317 + metal::dot(x0_1_, f0_1_);
                metal::float4 f0_2_ = metal::float4(as_type<float>(((v0_2_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 5u) & 7864320u) | 1065353216u));
                float _e349 = d0_0_;
                d0_0_ = _e349 + metal::dot(x0_2_, f0_2_);
                metal::float4 f0_3_ = metal::float4(as_type<float>(((v0_3_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 5u) & 7864320u) | 1065353216u));
                float _e381 = d0_0_;
                d0_0_ = _e381 + metal::dot(x0_3_, f0_3_);
                metal::float4 f0_8_ = metal::float4(as_type<float>(((v0_0_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_0_ >> 9u) & 7864320u) | 1065353216u));
                float _e413 = d0_0_;
                d0_0_ = _e413 + metal::dot(x0_8_, f0_8_);
                metal::float4 f0_9_ = metal::float4(as_type<float>(((v0_1_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_1_ >> 9u) & 7864320u) | 1065353216u));
                float _e445 = d0_0_;
                d0_0_ = _e445 + metal::dot(x0_9_, f0_9_);
                metal::float4 f0_10_ = metal::float4(as_type<float>(((v0_2_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_2_ >> 9u) & 7864320u) | 1065353216u));
                float _e477 = d0_0_;
                d0_0_ = _e477 + metal::dot(x0_10_, f0_10_);
                metal::float4 f0_11_ = metal::float4(as_type<float>(((v0_3_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_3_ >> 9u) & 7864320u) | 1065353216u));
                float _e509 = d0_0_;
                d0_0_ = _e509 + metal::dot(x0_11_, f0_11_);
            }
            {
                uint v0_4_ = w[(at0_ + 80u) + row];
                uint v0_5_ = w[(at0_ + 96u) + row];
                uint v0_6_ = w[(at0_ + 112u) + row];
                uint v0_7_ = w[(at0_ + 128u) + row];
                uint _e537 = b;
                uint _e546 = job.x_stride;
                metal::float4 x0_4_ = x_1[((x_first + (_e537 * 16u)) + 4u) + (0u * _e546)];
                metal::float4 _e551 = all0_;
                all0_ = _e551 + x0_4_;
                uint _e554 = b;
                uint _e563 = job.x_stride;
                metal::float4 x0_5_ = x_1[((x_first + (_e554 * 16u)) + 5u) + (0u * _e563)];
                metal::float4 _e568 = all0_;
                all0_ = _e568 + x0_5_;
                uint _e571 = b;
                uint _e580 = job.x_stride;
                metal::float4 x0_6_ = x_1[((x_first + (_e571 * 16u)) + 6u) + (0u * _e580)];
                metal::float4 _e585 = all0_;
                all0_ = _e585 + x0_6_;
                uint _e588 = b;
                uint _e597 = job.x_stride;
                metal::float4 x0_7_ = x_1[((x_first + (_e588 * 16u)) + 7u) + (0u * _e597)];
                metal::float4 _e602 = all0_;
                all0_ = _e602 + x0_7_;
                uint _e605 = b;
                uint _e614 = job.x_stride;
                metal::float4 x0_12_ = x_1[((x_first + (_e605 * 16u)) + 12u) + (0u * _e614)];
                metal::float4 _e619 = all0_;
                all0_ = _e619 + x0_12_;
                uint _e622 = b;
                uint _e631 = job.x_stride;
                metal::float4 x0_13_ = x_1[((x_first + (_e622 * 16u)) + 13u) + (0u * _e631)];
                metal::float4 _e636 = all0_;
                all0_ = _e636 + x0_13_;
                uint _e639 = b;
                uint _e648 = job.x_stride;
                metal::float4 x0_14_ = x_1[((x_first + (_e639 * 16u)) + 14u) + (0u * _e648)];
                metal::float4 _e653 = all0_;
                all0_ = _e653 + x0_14_;
                uint _e656 = b;
                uint _e665 = job.x_stride;
                metal::float4 x0_15_ = x_1[((x_first + (_e656 * 16u)) + 15u) + (0u * _e665)];
                metal::float4 _e670 = all0_;
                all0_ = _e670 + x0_15_;
                metal::float4 f0_4_ = metal::float4(as_type<float>(((v0_4_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 5u) & 7864320u) | 1065353216u));
                float _e701 = d0_0_;
                d0_0_ = _e701 + metal::dot(x0_4_, f0_4_);
                metal::float4 f0_5_ = metal::float4(as_type<float>(((v0_5_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 5u) & 7864320u) | 1065353216u));
                float _e733 = d0_0_;
                d0_0_ = _e733 + metal::dot(x0_5_, f0_5_);
                metal::float4 f0_6_ = metal::float4(as_type<float>(((v0_6_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 5u) & 7864320u) | 1065353216u));
                float _e765 = d0_0_;
                d0_0_ = _e765 + metal::dot(x0_6_, f0_6_);
                metal::float4 f0_7_ = metal::float4(as_type<float>(((v0_7_ << 19u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 11u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 3u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 5u) & 7864320u) | 1065353216u));
                float _e797 = d0_0_;
                d0_0_ = _e797 + metal::dot(x0_7_, f0_7_);
                metal::float4 f0_12_ = metal::float4(as_type<float>(((v0_4_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_4_ >> 9u) & 7864320u) | 1065353216u));
                float _e829 = d0_0_;
                d0_0_ = _e829 + metal::dot(x0_12_, f0_12_);
                metal::float4 f0_13_ = metal::float4(as_type<float>(((v0_5_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_5_ >> 9u) & 7864320u) | 1065353216u));
                float _e861 = d0_0_;
                d0_0_ = _e861 + metal::dot(x0_13_, f0_13_);
                metal::float4 f0_14_ = metal::float4(as_type<float>(((v0_6_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_6_ >> 9u) & 7864320u) | 1065353216u));
                float _e893 = d0_0_;
                d0_0_ = _e893 + metal::dot(x0_14_, f0_14_);
                metal::float4 f0_15_ = metal::float4(as_type<float>(((v0_7_ << 15u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ << 7u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 1u) & 7864320u) | 1065353216u), as_type<float>(((v0_7_ >> 9u) & 7864320u) | 1065353216u));
                float _e925 = d0_0_;
                d0_0_ = _e925 + metal::dot(x0_15_, f0_15_);
            }
            float _e928 = sum0_0_;
            float _e929 = d0_0_;
            float _e932 = all0_.x;
            float _e934 = all0_.y;
            float _e937 = all0_.z;
            float _e940 = all0_.w;
            sum0_0_ = _e928 + ((a0_ * _e929) + (c0_ * (((_e932 + _e934) + _e937) + _e940)));
        }
    }
    float _e952 = sum0_0_;
    part.inner[0u + lid] = _e952;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    o = lid;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e1021 = o;
            o = _e1021 + 256u;
        }
        loop_init_1 = false;
        uint _e954 = o;
        if (_e954 < 16u) {
        } else {
            break;
        }
        {
            uint _e957 = o;
            uint r = _e957 & 15u;
            uint _e960 = o;
            uint token = naga_mod(_e960 >> 4u, 1u);
            uint _e965 = o;
            uint p_1 = naga_div(_e965 >> 4u, 1u);
            uint output = ((first + p_1) * 16u) + r;
            uint _e976 = job.rows;
            if (output < _e976) {
                t = 0.0;
                k = 0u;
                uint2 loop_bound_2 = uint2(4294967295u);
                bool loop_init_2 = true;
                while(true) {
                    if (metal::all(loop_bound_2 == uint2(0u))) { break; }
                    loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
                    if (!loop_init_2) {
                        uint _e1001 = k;
                        k = _e1001 + 1u;
                    }
                    loop_init_2 = false;
                    uint _e982 = k;
                    if (_e982 < 16u) {
                    } else {
                        break;
                    }
                    {
                        float _e985 = t;
                        uint _e992 = k;
                        float _e998 = part.inner[((((p_1 * 1u) + token) * 256u) + (_e992 * 16u)) + r];
                        t = _e985 + _e998;
                    }
                }
                float _e1003 = t;
                uint _e1007 = job.bias;
                float _e1010 = vectors[_e1007 + output];
                t = _e1003 + _e1010;
                uint _e1015 = job.y_stride;
                float _e1020 = t;
                y[(y_first + (token * _e1015)) + output] = _e1020;
            }
        }
    }
    return;
}
