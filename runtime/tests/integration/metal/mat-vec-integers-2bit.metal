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
struct type_8 {
    metal::uint2 inner[1024];
};
struct type_10 {
    metal::float2 inner[64];
};
constant float shift = 0.0;

metal::int4 naga_f2i32(metal::float4 value) {
    return static_cast<metal::int4>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

metal::uint2 halves_of(
    metal::float4 x
) {
    metal::int4 v = naga_f2i32(metal::rint(x));
    metal::int4 upper = as_type<metal::int4>(as_type<metal::uint4>(v) + as_type<metal::uint4>(metal::int4(128))) >> metal::uint4(8u);
    return metal::uint2(as_type<uint>(packed_char4(upper)), as_type<uint>(packed_char4(as_type<metal::int4>(as_type<metal::uint4>(v) - as_type<metal::uint4>(as_type<metal::int4>(as_type<metal::uint4>(upper) * as_type<uint>(256)))))));
}

float error_function(
    float x_1
) {
    float a = metal::abs(x_1);
    float t_1 = 1.0 / (1.0 + (0.3275911 * a));
    float p = t_1 * (0.2548296 + (t_1 * (-0.28449672 + (t_1 * (1.4214138 + (t_1 * (-1.4531521 + (t_1 * 1.0614054))))))));
    float y_1 = 1.0 - (p * metal::exp(-(a) * a));
    return (x_1 < 0.0) ? -(y_1) : y_1;
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
, device type_4 const& x_2 [[user(fake0)]]
, device type_5& y [[user(fake0)]]
, device type_5 const& vectors [[user(fake0)]]
, threadgroup type_6& part
, threadgroup type_8& halves
, threadgroup type_6& most
, threadgroup type_6& total
, threadgroup type_10& block
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        part = {};
        halves = {};
        most = {};
        total = {};
        block = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float sum0_0_ = 0.0;
    uint round_first = 0u;
    metal::float4 x0_ = {};
    metal::float4 x1_ = {};
    metal::float4 x2_ = {};
    metal::float4 x3_ = {};
    float top = {};
    float sum = {};
    uint i = {};
    uint b = {};
    int upper0_ = {};
    int lower0_ = {};
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
    uint panel0_ = (0u + _e22) + (metal::min(first + 0u, (_e28 - 1u) >> 4u) * (0u + (_e37 * 80u)));
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e597 = round_first;
            round_first = _e597 + 64u;
        }
        loop_init = false;
        uint _e47 = round_first;
        uint _e50 = job.superblocks;
        if (_e47 < _e50) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e52 = round_first;
            uint quad_first = (_e52 * 16u) + (lid * 4u);
            x0_ = metal::float4 {};
            x1_ = metal::float4 {};
            x2_ = metal::float4 {};
            x3_ = metal::float4 {};
            if (lid < 256u) {
                uint _e70 = job.superblocks;
                if (quad_first < (_e70 * 16u)) {
                    metal::float4 _e77 = x_2[x_first + quad_first];
                    x0_ = _e77;
                    metal::float4 _e83 = x_2[(x_first + quad_first) + 1u];
                    x1_ = _e83;
                    metal::float4 _e89 = x_2[(x_first + quad_first) + 2u];
                    x2_ = _e89;
                    metal::float4 _e95 = x_2[(x_first + quad_first) + 3u];
                    x3_ = _e95;
                }
                metal::float4 _e96 = x0_;
                metal::float4 _e98 = x1_;
                metal::float4 _e101 = x2_;
                metal::float4 _e103 = x3_;
                metal::float4 m = metal::max(metal::max(metal::abs(_e96), metal::abs(_e98)), metal::max(metal::abs(_e101), metal::abs(_e103)));
                metal::float4 _e107 = x0_;
                metal::float4 _e108 = x1_;
                metal::float4 _e110 = x2_;
                metal::float4 _e111 = x3_;
                metal::float4 s = (_e107 + _e108) + (_e110 + _e111);
                most.inner[lid] = metal::max(metal::max(m.x, m.y), metal::max(m.z, m.w));
                total.inner[lid] = (s.x + s.y) + (s.z + s.w);
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (lid < 256u) {
                uint own = naga_div(lid, 4u) * 4u;
                float _e140 = most.inner[own];
                top = _e140;
                float _e144 = total.inner[own];
                sum = _e144;
                i = 1u;
                uint2 loop_bound_1 = uint2(4294967295u);
                bool loop_init_1 = true;
                while(true) {
                    if (metal::all(loop_bound_1 == uint2(0u))) { break; }
                    loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
                    if (!loop_init_1) {
                        uint _e166 = i;
                        i = _e166 + 1u;
                    }
                    loop_init_1 = false;
                    uint _e148 = i;
                    if (_e148 < 4u) {
                    } else {
                        break;
                    }
                    {
                        float _e151 = top;
                        uint _e153 = i;
                        float _e156 = most.inner[own + _e153];
                        top = metal::max(_e151, _e156);
                        float _e158 = sum;
                        uint _e160 = i;
                        float _e163 = total.inner[own + _e160];
                        sum = _e158 + _e163;
                    }
                }
                float _e168 = top;
                float _e171 = top;
                float up = (_e171 > 0.0) ? (32639.0 / _e168) : 0.0;
                metal::float4 _e180 = x0_;
                metal::uint2 _e182 = halves_of(_e180 * up);
                halves.inner[lid * 4u] = _e182;
                metal::float4 _e189 = x1_;
                metal::uint2 _e191 = halves_of(_e189 * up);
                halves.inner[(lid * 4u) + 1u] = _e191;
                metal::float4 _e198 = x2_;
                metal::uint2 _e200 = halves_of(_e198 * up);
                halves.inner[(lid * 4u) + 2u] = _e200;
                metal::float4 _e207 = x3_;
                metal::uint2 _e209 = halves_of(_e207 * up);
                halves.inner[(lid * 4u) + 3u] = _e209;
                if (own == lid) {
                    float _e215 = top;
                    float _e218 = sum;
                    block.inner[naga_div(lid, 4u)] = metal::float2(_e215 * 0.000030638195, _e218);
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e220 = round_first;
            b = _e220 + slice;
            uint2 loop_bound_2 = uint2(4294967295u);
            bool loop_init_2 = true;
            while(true) {
                if (metal::all(loop_bound_2 == uint2(0u))) { break; }
                loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
                if (!loop_init_2) {
                    uint _e594 = b;
                    b = _e594 + 16u;
                }
                loop_init_2 = false;
                uint _e223 = b;
                uint _e226 = job.superblocks;
                uint _e227 = round_first;
                if (_e223 < metal::min(_e226, _e227 + 64u)) {
                } else {
                    break;
                }
                {
                    uint _e232 = b;
                    uint _e233 = round_first;
                    uint here = (_e232 - _e233) * 16u;
                    uint _e238 = b;
                    uint _e239 = round_first;
                    metal::float2 input = block.inner[_e238 - _e239];
                    uint _e245 = b;
                    uint at0_ = (panel0_ + 0u) + (_e245 * 80u);
                    uint _e256 = w[(at0_ + 0u) + (row >> 1u)];
                    float s0_ = float2(as_type<half2>((_e256 >> ((row & 1u) << 4u)))).x;
                    uint _e271 = w[(at0_ + 8u) + (row >> 1u)];
                    float least0_ = float2(as_type<half2>((_e271 >> ((row & 1u) << 4u)))).x;
                    float a0_ = 4.0 * s0_;
                    float c0_ = least0_ - (4.0 * s0_);
                    upper0_ = 0;
                    lower0_ = 0;
                    {
                        uint v0_0_ = w[(at0_ + 16u) + row];
                        uint v0_1_ = w[(at0_ + 32u) + row];
                        metal::uint2 h0_ = halves.inner[here + 0u];
                        uint q0_0_ = v0_0_ & 50529027u;
                        int _e307 = upper0_;
                        uint _e308 = h0_.x;
                        packed_char4 reinterpreted_packed_char4_e306 = as_type<packed_char4>(q0_0_);
                        packed_char4 reinterpreted_packed_char4_e308 = as_type<packed_char4>(_e308);
                        upper0_ = as_type<int>(as_type<uint>(_e307) + as_type<uint>(( + reinterpreted_packed_char4_e306[0] * reinterpreted_packed_char4_e308[0] + reinterpreted_packed_char4_e306[1] * reinterpreted_packed_char4_e308[1] + reinterpreted_packed_char4_e306[2] * reinterpreted_packed_char4_e308[2] + reinterpreted_packed_char4_e306[3] * reinterpreted_packed_char4_e308[3])));
                        int _e311 = lower0_;
                        uint _e312 = h0_.y;
                        packed_char4 reinterpreted_packed_char4_e306 = as_type<packed_char4>(q0_0_);
                        packed_char4 reinterpreted_packed_char4_e312 = as_type<packed_char4>(_e312);
                        lower0_ = as_type<int>(as_type<uint>(_e311) + as_type<uint>(( + reinterpreted_packed_char4_e306[0] * reinterpreted_packed_char4_e312[0] + reinterpreted_packed_char4_e306[1] * reinterpreted_packed_char4_e312[1] + reinterpreted_packed_char4_e306[2] * reinterpreted_packed_char4_e312[2] + reinterpreted_packed_char4_e306[3] * reinterpreted_packed_char4_e312[3])));
                        metal::uint2 h1_ = halves.inner[here + 1u];
                        uint q0_1_ = v0_1_ & 50529027u;
                        int _e322 = upper0_;
                        uint _e323 = h1_.x;
                        packed_char4 reinterpreted_packed_char4_e321 = as_type<packed_char4>(q0_1_);
                        packed_char4 reinterpreted_packed_char4_e323 = as_type<packed_char4>(_e323);
                        upper0_ = as_type<int>(as_type<uint>(_e322) + as_type<uint>(( + reinterpreted_packed_char4_e321[0] * reinterpreted_packed_char4_e323[0] + reinterpreted_packed_char4_e321[1] * reinterpreted_packed_char4_e323[1] + reinterpreted_packed_char4_e321[2] * reinterpreted_packed_char4_e323[2] + reinterpreted_packed_char4_e321[3] * reinterpreted_packed_char4_e323[3])));
                        int _e326 = lower0_;
                        uint _e327 = h1_.y;
                        packed_char4 reinterpreted_packed_char4_e321 = as_type<packed_char4>(q0_1_);
                        packed_char4 reinterpreted_packed_char4_e327 = as_type<packed_char4>(_e327);
                        lower0_ = as_type<int>(as_type<uint>(_e326) + as_type<uint>(( + reinterpreted_packed_char4_e321[0] * reinterpreted_packed_char4_e327[0] + reinterpreted_packed_char4_e321[1] * reinterpreted_packed_char4_e327[1] + reinterpreted_packed_char4_e321[2] * reinterpreted_packed_char4_e327[2] + reinterpreted_packed_char4_e321[3] * reinterpreted_packed_char4_e327[3])));
                        metal::uint2 h4_ = halves.inner[here + 4u];
                        uint q0_4_ = (v0_0_ >> 2u) & 50529027u;
                        int _e339 = upper0_;
                        uint _e340 = h4_.x;
                        packed_char4 reinterpreted_packed_char4_e338 = as_type<packed_char4>(q0_4_);
                        packed_char4 reinterpreted_packed_char4_e340 = as_type<packed_char4>(_e340);
                        upper0_ = as_type<int>(as_type<uint>(_e339) + as_type<uint>(( + reinterpreted_packed_char4_e338[0] * reinterpreted_packed_char4_e340[0] + reinterpreted_packed_char4_e338[1] * reinterpreted_packed_char4_e340[1] + reinterpreted_packed_char4_e338[2] * reinterpreted_packed_char4_e340[2] + reinterpreted_packed_char4_e338[3] * reinterpreted_packed_char4_e340[3])));
                        int _e343 = lower0_;
                        uint _e344 = h4_.y;
                        packed_char4 reinterpreted_packed_char4_e338 = as_type<packed_char4>(q0_4_);
                        packed_char4 reinterpreted_packed_char4_e344 = as_type<packed_char4>(_e344);
                        lower0_ = as_type<int>(as_type<uint>(_e343) + as_type<uint>(( + reinterpreted_packed_char4_e338[0] * reinterpreted_packed_char4_e344[0] + reinterpreted_packed_char4_e338[1] * reinterpreted_packed_char4_e344[1] + reinterpreted_packed_char4_e338[2] * reinterpreted_packed_char4_e344[2] + reinterpreted_packed_char4_e338[3] * reinterpreted_packed_char4_e344[3])));
                        metal::uint2 h5_ = halves.inner[here + 5u];
                        uint q0_5_ = (v0_1_ >> 2u) & 50529027u;
                        int _e356 = upper0_;
                        uint _e357 = h5_.x;
                        packed_char4 reinterpreted_packed_char4_e355 = as_type<packed_char4>(q0_5_);
                        packed_char4 reinterpreted_packed_char4_e357 = as_type<packed_char4>(_e357);
                        upper0_ = as_type<int>(as_type<uint>(_e356) + as_type<uint>(( + reinterpreted_packed_char4_e355[0] * reinterpreted_packed_char4_e357[0] + reinterpreted_packed_char4_e355[1] * reinterpreted_packed_char4_e357[1] + reinterpreted_packed_char4_e355[2] * reinterpreted_packed_char4_e357[2] + reinterpreted_packed_char4_e355[3] * reinterpreted_packed_char4_e357[3])));
                        int _e360 = lower0_;
                        uint _e361 = h5_.y;
                        packed_char4 reinterpreted_packed_char4_e355 = as_type<packed_char4>(q0_5_);
                        packed_char4 reinterpreted_packed_char4_e361 = as_type<packed_char4>(_e361);
                        lower0_ = as_type<int>(as_type<uint>(_e360) + as_type<uint>(( + reinterpreted_packed_char4_e355[0] * reinterpreted_packed_char4_e361[0] + reinterpreted_packed_char4_e355[1] * reinterpreted_packed_char4_e361[1] + reinterpreted_packed_char4_e355[2] * reinterpreted_packed_char4_e361[2] + reinterpreted_packed_char4_e355[3] * reinterpreted_packed_char4_e361[3])));
                        metal::uint2 h8_ = halves.inner[here + 8u];
                        uint q0_8_ = (v0_0_ >> 4u) & 50529027u;
                        int _e373 = upper0_;
                        uint _e374 = h8_.x;
                        packed_char4 reinterpreted_packed_char4_e372 = as_type<packed_char4>(q0_8_);
                        packed_char4 reinterpreted_packed_char4_e374 = as_type<packed_char4>(_e374);
                        upper0_ = as_type<int>(as_type<uint>(_e373) + as_type<uint>(( + reinterpreted_packed_char4_e372[0] * reinterpreted_packed_char4_e374[0] + reinterpreted_packed_char4_e372[1] * reinterpreted_packed_char4_e374[1] + reinterpreted_packed_char4_e372[2] * reinterpreted_packed_char4_e374[2] + reinterpreted_packed_char4_e372[3] * reinterpreted_packed_char4_e374[3])));
                        int _e377 = lower0_;
                        uint _e378 = h8_.y;
                        packed_char4 reinterpreted_packed_char4_e372 = as_type<packed_char4>(q0_8_);
                        packed_char4 reinterpreted_packed_char4_e378 = as_type<packed_char4>(_e378);
                        lower0_ = as_type<int>(as_type<uint>(_e377) + as_type<uint>(( + reinterpreted_packed_char4_e372[0] * reinterpreted_packed_char4_e378[0] + reinterpreted_packed_char4_e372[1] * reinterpreted_packed_char4_e378[1] + reinterpreted_packed_char4_e372[2] * reinterpreted_packed_char4_e378[2] + reinterpreted_packed_char4_e372[3] * reinterpreted_packed_char4_e378[3])));
                        metal::uint2 h9_ = halves.inner[here + 9u];
                        uint q0_9_ = (v0_1_ >> 4u) & 50529027u;
                        int _e390 = upper0_;
                        uint _e391 = h9_.x;
                        packed_char4 reinterpreted_packed_char4_e389 = as_type<packed_char4>(q0_9_);
                        packed_char4 reinterpreted_packed_char4_e391 = as_type<packed_char4>(_e391);
                        upper0_ = as_type<int>(as_type<uint>(_e390) + as_type<uint>(( + reinterpreted_packed_char4_e389[0] * reinterpreted_packed_char4_e391[0] + reinterpreted_packed_char4_e389[1] * reinterpreted_packed_char4_e391[1] + reinterpreted_packed_char4_e389[2] * reinterpreted_packed_char4_e391[2] + reinterpreted_packed_char4_e389[3] * reinterpreted_packed_char4_e391[3])));
                        int _e394 = lower0_;
                        uint _e395 = h9_.y;
                        packed_char4 reinterpreted_packed_char4_e389 = as_type<packed_char4>(q0_9_);
                        packed_char4 reinterpreted_packed_char4_e395 = as_type<packed_char4>(_e395);
                        lower0_ = as_type<int>(as_type<uint>(_e394) + as_type<uint>(( + reinterpreted_packed_char4_e389[0] * reinterpreted_packed_char4_e395[0] + reinterpreted_packed_char4_e389[1] * reinterpreted_packed_char4_e395[1] + reinterpreted_packed_char4_e389[2] * reinterpreted_packed_char4_e395[2] + reinterpreted_packed_char4_e389[3] * reinterpreted_packed_char4_e395[3])));
                        metal::uint2 h12_ = halves.inner[here + 12u];
                        uint q0_12_ = (v0_0_ >> 6u) & 50529027u;
                        int _e407 = upper0_;
                        uint _e408 = h12_.x;
                        packed_char4 reinterpreted_packed_char4_e406 = as_type<packed_char4>(q0_12_);
                        packed_char4 reinterpreted_packed_char4_e408 = as_type<packed_char4>(_e408);
                        upper0_ = as_type<int>(as_type<uint>(_e407) + as_type<uint>(( + reinterpreted_packed_char4_e406[0] * reinterpreted_packed_char4_e408[0] + reinterpreted_packed_char4_e406[1] * reinterpreted_packed_char4_e408[1] + reinterpreted_packed_char4_e406[2] * reinterpreted_packed_char4_e408[2] + reinterpreted_packed_char4_e406[3] * reinterpreted_packed_char4_e408[3])));
                        int _e411 = lower0_;
                        uint _e412 = h12_.y;
                        packed_char4 reinterpreted_packed_char4_e406 = as_type<packed_char4>(q0_12_);
                        packed_char4 reinterpreted_packed_char4_e412 = as_type<packed_char4>(_e412);
                        lower0_ = as_type<int>(as_type<uint>(_e411) + as_type<uint>(( + reinterpreted_packed_char4_e406[0] * reinterpreted_packed_char4_e412[0] + reinterpreted_packed_char4_e406[1] * reinterpreted_packed_char4_e412[1] + reinterpreted_packed_char4_e406[2] * reinterpreted_packed_char4_e412[2] + reinterpreted_packed_char4_e406[3] * reinterpreted_packed_char4_e412[3])));
                        metal::uint2 h13_ = halves.inner[here + 13u];
                        uint q0_13_ = (v0_1_ >> 6u) & 50529027u;
                        int _e424 = upper0_;
                        uint _e425 = h13_.x;
                        packed_char4 reinterpreted_packed_char4_e423 = as_type<packed_char4>(q0_13_);
                        packed_char4 reinterpreted_packed_char4_e425 = as_type<packed_char4>(_e425);
                        upper0_ = as_type<int>(as_type<uint>(_e424) + as_type<uint>(( + reinterpreted_packed_char4_e423[0] * reinterpreted_packed_char4_e425[0] + reinterpreted_packed_char4_e423[1] * reinterpreted_packed_char4_e425[1] + reinterpreted_packed_char4_e423[2] * reinterpreted_packed_char4_e425[2] + reinterpreted_packed_char4_e423[3] * reinterpreted_packed_char4_e425[3])));
                        int _e428 = lower0_;
                        uint _e429 = h13_.y;
                        packed_char4 reinterpreted_packed_char4_e423 = as_type<packed_char4>(q0_13_);
                        packed_char4 reinterpreted_packed_char4_e429 = as_type<packed_char4>(_e429);
                        lower0_ = as_type<int>(as_type<uint>(_e428) + as_type<uint>(( + reinterpreted_packed_char4_e423[0] * reinterpreted_packed_char4_e429[0] + reinterpreted_packed_char4_e423[1] * reinterpreted_packed_char4_e429[1] + reinterpreted_packed_char4_e423[2] * reinterpreted_packed_char4_e429[2] + reinterpreted_packed_char4_e423[3] * reinterpreted_packed_char4_e429[3])));
                    }
                    {
                        uint v0_2_ = w[(at0_ + 48u) + row];
                        uint v0_3_ = w[(at0_ + 64u) + row];
                        metal::uint2 h2_ = halves.inner[here + 2u];
                        uint q0_2_ = v0_2_ & 50529027u;
                        int _e451 = upper0_;
                        uint _e452 = h2_.x;
                        packed_char4 reinterpreted_packed_char4_e450 = as_type<packed_char4>(q0_2_);
                        packed_char4 reinterpreted_packed_char4_e452 = as_type<packed_char4>(_e452);
                        upper0_ = as_type<int>(as_type<uint>(_e451) + as_type<uint>(( + reinterpreted_packed_char4_e450[0] * reinterpreted_packed_char4_e452[0] + reinterpreted_packed_char4_e450[1] * reinterpreted_packed_char4_e452[1] + reinterpreted_packed_char4_e450[2] * reinterpreted_packed_char4_e452[2] + reinterpreted_packed_char4_e450[3] * reinterpreted_packed_char4_e452[3])));
                        int _e455 = lower0_;
                        uint _e456 = h2_.y;
                        packed_char4 reinterpreted_packed_char4_e450 = as_type<packed_char4>(q0_2_);
                        packed_char4 reinterpreted_packed_char4_e456 = as_type<packed_char4>(_e456);
                        lower0_ = as_type<int>(as_type<uint>(_e455) + as_type<uint>(( + reinterpreted_packed_char4_e450[0] * reinterpreted_packed_char4_e456[0] + reinterpreted_packed_char4_e450[1] * reinterpreted_packed_char4_e456[1] + reinterpreted_packed_char4_e450[2] * reinterpreted_packed_char4_e456[2] + reinterpreted_packed_char4_e450[3] * reinterpreted_packed_char4_e456[3])));
                        metal::uint2 h3_ = halves.inner[here + 3u];
                        uint q0_3_ = v0_3_ & 50529027u;
                        int _e466 = upper0_;
                        uint _e467 = h3_.x;
                        packed_char4 reinterpreted_packed_char4_e465 = as_type<packed_char4>(q0_3_);
                        packed_char4 reinterpreted_packed_char4_e467 = as_type<packed_char4>(_e467);
                        upper0_ = as_type<int>(as_type<uint>(_e466) + as_type<uint>(( + reinterpreted_packed_char4_e465[0] * reinterpreted_packed_char4_e467[0] + reinterpreted_packed_char4_e465[1] * reinterpreted_packed_char4_e467[1] + reinterpreted_packed_char4_e465[2] * reinterpreted_packed_char4_e467[2] + reinterpreted_packed_char4_e465[3] * reinterpreted_packed_char4_e467[3])));
                        int _e470 = lower0_;
                        uint _e471 = h3_.y;
                        packed_char4 reinterpreted_packed_char4_e465 = as_type<packed_char4>(q0_3_);
                        packed_char4 reinterpreted_packed_char4_e471 = as_type<packed_char4>(_e471);
                        lower0_ = as_type<int>(as_type<uint>(_e470) + as_type<uint>(( + reinterpreted_packed_char4_e465[0] * reinterpreted_packed_char4_e471[0] + reinterpreted_packed_char4_e465[1] * reinterpreted_packed_char4_e471[1] + reinterpreted_packed_char4_e465[2] * reinterpreted_packed_char4_e471[2] + reinterpreted_packed_char4_e465[3] * reinterpreted_packed_char4_e471[3])));
                        metal::uint2 h6_ = halves.inner[here + 6u];
                        uint q0_6_ = (v0_2_ >> 2u) & 50529027u;
                        int _e483 = upper0_;
                        uint _e484 = h6_.x;
                        packed_char4 reinterpreted_packed_char4_e482 = as_type<packed_char4>(q0_6_);
                        packed_char4 reinterpreted_packed_char4_e484 = as_type<packed_char4>(_e484);
                        upper0_ = as_type<int>(as_type<uint>(_e483) + as_type<uint>(( + reinterpreted_packed_char4_e482[0] * reinterpreted_packed_char4_e484[0] + reinterpreted_packed_char4_e482[1] * reinterpreted_packed_char4_e484[1] + reinterpreted_packed_char4_e482[2] * reinterpreted_packed_char4_e484[2] + reinterpreted_packed_char4_e482[3] * reinterpreted_packed_char4_e484[3])));
                        int _e487 = lower0_;
                        uint _e488 = h6_.y;
                        packed_char4 reinterpreted_packed_char4_e482 = as_type<packed_char4>(q0_6_);
                        packed_char4 reinterpreted_packed_char4_e488 = as_type<packed_char4>(_e488);
                        lower0_ = as_type<int>(as_type<uint>(_e487) + as_type<uint>(( + reinterpreted_packed_char4_e482[0] * reinterpreted_packed_char4_e488[0] + reinterpreted_packed_char4_e482[1] * reinterpreted_packed_char4_e488[1] + reinterpreted_packed_char4_e482[2] * reinterpreted_packed_char4_e488[2] + reinterpreted_packed_char4_e482[3] * reinterpreted_packed_char4_e488[3])));
                        metal::uint2 h7_ = halves.inner[here + 7u];
                        uint q0_7_ = (v0_3_ >> 2u) & 50529027u;
                        int _e500 = upper0_;
                        uint _e501 = h7_.x;
                        packed_char4 reinterpreted_packed_char4_e499 = as_type<packed_char4>(q0_7_);
                        packed_char4 reinterpreted_packed_char4_e501 = as_type<packed_char4>(_e501);
                        upper0_ = as_type<int>(as_type<uint>(_e500) + as_type<uint>(( + reinterpreted_packed_char4_e499[0] * reinterpreted_packed_char4_e501[0] + reinterpreted_packed_char4_e499[1] * reinterpreted_packed_char4_e501[1] + reinterpreted_packed_char4_e499[2] * reinterpreted_packed_char4_e501[2] + reinterpreted_packed_char4_e499[3] * reinterpreted_packed_char4_e501[3])));
                        int _e504 = lower0_;
                        uint _e505 = h7_.y;
                        packed_char4 reinterpreted_packed_char4_e499 = as_type<packed_char4>(q0_7_);
                        packed_char4 reinterpreted_packed_char4_e505 = as_type<packed_char4>(_e505);
                        lower0_ = as_type<int>(as_type<uint>(_e504) + as_type<uint>(( + reinterpreted_packed_char4_e499[0] * reinterpreted_packed_char4_e505[0] + reinterpreted_packed_char4_e499[1] * reinterpreted_packed_char4_e505[1] + reinterpreted_packed_char4_e499[2] * reinterpreted_packed_char4_e505[2] + reinterpreted_packed_char4_e499[3] * reinterpreted_packed_char4_e505[3])));
                        metal::uint2 h10_ = halves.inner[here + 10u];
                        uint q0_10_ = (v0_2_ >> 4u) & 50529027u;
                        int _e517 = upper0_;
                        uint _e518 = h10_.x;
                        packed_char4 reinterpreted_packed_char4_e516 = as_type<packed_char4>(q0_10_);
                        packed_char4 reinterpreted_packed_char4_e518 = as_type<packed_char4>(_e518);
                        upper0_ = as_type<int>(as_type<uint>(_e517) + as_type<uint>(( + reinterpreted_packed_char4_e516[0] * reinterpreted_packed_char4_e518[0] + reinterpreted_packed_char4_e516[1] * reinterpreted_packed_char4_e518[1] + reinterpreted_packed_char4_e516[2] * reinterpreted_packed_char4_e518[2] + reinterpreted_packed_char4_e516[3] * reinterpreted_packed_char4_e518[3])));
                        int _e521 = lower0_;
                        uint _e522 = h10_.y;
                        packed_char4 reinterpreted_packed_char4_e516 = as_type<packed_char4>(q0_10_);
                        packed_char4 reinterpreted_packed_char4_e522 = as_type<packed_char4>(_e522);
                        lower0_ = as_type<int>(as_type<uint>(_e521) + as_type<uint>(( + reinterpreted_packed_char4_e516[0] * reinterpreted_packed_char4_e522[0] + reinterpreted_packed_char4_e516[1] * reinterpreted_packed_char4_e522[1] + reinterpreted_packed_char4_e516[2] * reinterpreted_packed_char4_e522[2] + reinterpreted_packed_char4_e516[3] * reinterpreted_packed_char4_e522[3])));
                        metal::uint2 h11_ = halves.inner[here + 11u];
                        uint q0_11_ = (v0_3_ >> 4u) & 50529027u;
                        int _e534 = upper0_;
                        uint _e535 = h11_.x;
                        packed_char4 reinterpreted_packed_char4_e533 = as_type<packed_char4>(q0_11_);
                        packed_char4 reinterpreted_packed_char4_e535 = as_type<packed_char4>(_e535);
                        upper0_ = as_type<int>(as_type<uint>(_e534) + as_type<uint>(( + reinterpreted_packed_char4_e533[0] * reinterpreted_packed_char4_e535[0] + reinterpreted_packed_char4_e533[1] * reinterpreted_packed_char4_e535[1] + reinterpreted_packed_char4_e533[2] * reinterpreted_packed_char4_e535[2] + reinterpreted_packed_char4_e533[3] * reinterpreted_packed_char4_e535[3])));
                        int _e538 = lower0_;
                        uint _e539 = h11_.y;
                        packed_char4 reinterpreted_packed_char4_e533 = as_type<packed_char4>(q0_11_);
                        packed_char4 reinterpreted_packed_char4_e539 = as_type<packed_char4>(_e539);
                        lower0_ = as_type<int>(as_type<uint>(_e538) + as_type<uint>(( + reinterpreted_packed_char4_e533[0] * reinterpreted_packed_char4_e539[0] + reinterpreted_packed_char4_e533[1] * reinterpreted_packed_char4_e539[1] + reinterpreted_packed_char4_e533[2] * reinterpreted_packed_char4_e539[2] + reinterpreted_packed_char4_e533[3] * reinterpreted_packed_char4_e539[3])));
                        metal::uint2 h14_ = halves.inner[here + 14u];
                        uint q0_14_ = (v0_2_ >> 6u) & 50529027u;
                        int _e551 = upper0_;
                        uint _e552 = h14_.x;
                        packed_char4 reinterpreted_packed_char4_e550 = as_type<packed_char4>(q0_14_);
                        packed_char4 reinterpreted_packed_char4_e552 = as_type<packed_char4>(_e552);
                        upper0_ = as_type<int>(as_type<uint>(_e551) + as_type<uint>(( + reinterpreted_packed_char4_e550[0] * reinterpreted_packed_char4_e552[0] + reinterpreted_packed_char4_e550[1] * reinterpreted_packed_char4_e552[1] + reinterpreted_packed_char4_e550[2] * reinterpreted_packed_char4_e552[2] + reinterpreted_packed_char4_e550[3] * reinterpreted_packed_char4_e552[3])));
                        int _e555 = lower0_;
                        uint _e556 = h14_.y;
                        packed_char4 reinterpreted_packed_char4_e550 = as_type<packed_char4>(q0_14_);
                        packed_char4 reinterpreted_packed_char4_e556 = as_type<packed_char4>(_e556);
                        lower0_ = as_type<int>(as_type<uint>(_e555) + as_type<uint>(( + reinterpreted_packed_char4_e550[0] * reinterpreted_packed_char4_e556[0] + reinterpreted_packed_char4_e550[1] * reinterpreted_packed_char4_e556[1] + reinterpreted_packed_char4_e550[2] * reinterpreted_packed_char4_e556[2] + reinterpreted_packed_char4_e550[3] * reinterpreted_packed_char4_e556[3])));
                        metal::uint2 h15_ = halves.inner[here + 15u];
                        uint q0_15_ = (v0_3_ >> 6u) & 50529027u;
                        int _e568 = upper0_;
                        uint _e569 = h15_.x;
                        packed_char4 reinterpreted_packed_char4_e567 = as_type<packed_char4>(q0_15_);
                        packed_char4 reinterpreted_packed_char4_e569 = as_type<packed_char4>(_e569);
                        upper0_ = as_type<int>(as_type<uint>(_e568) + as_type<uint>(( + reinterpreted_packed_char4_e567[0] * reinterpreted_packed_char4_e569[0] + reinterpreted_packed_char4_e567[1] * reinterpreted_packed_char4_e569[1] + reinterpreted_packed_char4_e567[2] * reinterpreted_packed_char4_e569[2] + reinterpreted_packed_char4_e567[3] * reinterpreted_packed_char4_e569[3])));
                        int _e572 = lower0_;
                        uint _e573 = h15_.y;
                        packed_char4 reinterpreted_packed_char4_e567 = as_type<packed_char4>(q0_15_);
                        packed_char4 reinterpreted_packed_char4_e573 = as_type<packed_char4>(_e573);
                        lower0_ = as_type<int>(as_type<uint>(_e572) + as_type<uint>(( + reinterpreted_packed_char4_e567[0] * reinterpreted_packed_char4_e573[0] + reinterpreted_packed_char4_e567[1] * reinterpreted_packed_char4_e573[1] + reinterpreted_packed_char4_e567[2] * reinterpreted_packed_char4_e573[2] + reinterpreted_packed_char4_e567[3] * reinterpreted_packed_char4_e573[3])));
                    }
                    float _e576 = sum0_0_;
                    int _e581 = upper0_;
                    int _e585 = lower0_;
                    sum0_0_ = _e576 + ((((a0_ * 0.25) * input.x) * ((256.0 * static_cast<float>(_e581)) + static_cast<float>(_e585))) + ((a0_ + c0_) * input.y));
                }
            }
        }
    }
    float _e604 = sum0_0_;
    part.inner[0u + lid] = _e604;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    o = lid;
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e673 = o;
            o = _e673 + 256u;
        }
        loop_init_3 = false;
        uint _e606 = o;
        if (_e606 < 16u) {
        } else {
            break;
        }
        {
            uint _e609 = o;
            uint r = _e609 & 15u;
            uint _e612 = o;
            uint token = naga_mod(_e612 >> 4u, 1u);
            uint _e617 = o;
            uint p_1 = naga_div(_e617 >> 4u, 1u);
            uint output = ((first + p_1) * 16u) + r;
            uint _e628 = job.rows;
            if (output < _e628) {
                t = 0.0;
                k = 0u;
                uint2 loop_bound_4 = uint2(4294967295u);
                bool loop_init_4 = true;
                while(true) {
                    if (metal::all(loop_bound_4 == uint2(0u))) { break; }
                    loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
                    if (!loop_init_4) {
                        uint _e653 = k;
                        k = _e653 + 1u;
                    }
                    loop_init_4 = false;
                    uint _e634 = k;
                    if (_e634 < 16u) {
                    } else {
                        break;
                    }
                    {
                        float _e637 = t;
                        uint _e644 = k;
                        float _e650 = part.inner[((((p_1 * 1u) + token) * 256u) + (_e644 * 16u)) + r];
                        t = _e637 + _e650;
                    }
                }
                float _e655 = t;
                uint _e659 = job.bias;
                float _e662 = vectors[_e659 + output];
                t = _e655 + _e662;
                uint _e667 = job.y_stride;
                float _e672 = t;
                y[(y_first + (token * _e667)) + output] = _e672;
            }
        }
    }
    return;
}
