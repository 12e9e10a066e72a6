// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
    uint size5;
    uint size6;
};

struct Job {
    uint heads;
    uint kv_heads;
    uint position;
    uint context;
    uint window;
    float scale;
    float softcap;
    uint slopes;
    uint stride;
    uint head_stride;
    uint row;
    uint sinks;
    uint begin;
    uint part;
};
typedef float type_2[1];
typedef metal::uint4 type_4[1];
typedef uint type_5[1];
struct type_7 {
    metal::float4 inner[32];
};
struct type_8 {
    metal::float4 inner[16];
};
struct type_9 {
    float inner[1024];
};
uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_2 const& qkv [[user(fake0)]]
, device type_4 const& keys [[user(fake0)]]
, device type_4 const& values [[user(fake0)]]
, device type_2& parts [[user(fake0)]]
, device type_2 const& vectors [[user(fake0)]]
, device type_5 const& scales [[user(fake0)]]
, threadgroup type_7& query
, threadgroup type_8& scores
, threadgroup type_9& sums
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        query = {};
        scores = {};
        sums = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint i = {};
    float largest = {};
    float total = {};
    metal::float4 o0_0_ = metal::float4 {};
    metal::float4 o0_1_ = metal::float4 {};
    metal::float4 o0_2_ = metal::float4 {};
    metal::float4 o0_3_ = metal::float4 {};
    uint start = {};
    float score = {};
    metal::float4 d = {};
    metal::float4 e0_ = {};
    metal::float4 e1_ = {};
    metal::float4 e2_ = {};
    metal::float4 e3_ = {};
    metal::float4 most = {};
    metal::float4 all = {};
    uint i_1 = {};
    uint apart = 1u;
    uint i_2 = {};
    uint i_3 = {};
    uint i_4 = {};
    uint head = group.x;
    uint token = group.z;
    uint _e7 = job.position;
    uint position = _e7 + token;
    uint _e11 = job.heads;
    uint _e14 = job.kv_heads;
    uint kv = naga_div(head, naga_div(_e11, _e14));
    uint _e19 = job.row;
    uint begin = (token * _e19) + (head * 128u);
    i = lid;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e70 = i;
            i = _e70 + 64u;
        }
        loop_init = false;
        uint _e25 = i;
        if (_e25 < 32u) {
        } else {
            break;
        }
        {
            uint _e29 = i;
            uint _e33 = i;
            float _e37 = qkv[begin + (4u * _e33)];
            uint _e40 = i;
            float _e46 = qkv[(begin + (4u * _e40)) + 1u];
            uint _e49 = i;
            float _e55 = qkv[(begin + (4u * _e49)) + 2u];
            uint _e58 = i;
            float _e64 = qkv[(begin + (4u * _e58)) + 3u];
            float _e68 = job.scale;
            query.inner[_e29] = metal::float4(_e37, _e46, _e55, _e64) * _e68;
        }
    }
    uint _e78 = job.window;
    uint _e84 = job.window;
    uint first = ((position + 1u) > _e84) ? ((position + 1u) - _e78) : 0u;
    uint end = position + 1u;
    uint _e91 = job.context;
    uint base = (kv * _e91) * 8u;
    uint _e97 = job.context;
    uint value_base = (kv * _e97) * 8u;
    bool sinks = group.y == 0u;
    uint _e107 = job.sinks;
    float _e110 = vectors[_e107 + head];
    largest = sinks ? _e110 : -1000000000000000000000000000000.0;
    total = sinks ? 1.0 : 0.0;
    start = first;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e1256 = start;
            start = _e1256 + 64u;
        }
        loop_init_1 = false;
        uint _e127 = start;
        if (_e127 < end) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e129 = start;
            uint p = _e129 + lid;
            score = -1000000000000000000000000000000.0;
            if (p < end) {
                d = metal::float4 {};
                uint at = base + (p * 8u);
                uint _e142 = job.context;
                uint _e150 = scales[(((kv * _e142) + p) * 2u) + 0u];
                metal::float2 s0_ = float2(as_type<half2>(_e150)) * 0.007874016;
                uint _e157 = job.context;
                uint _e165 = scales[(((kv * _e157) + p) * 2u) + 1u];
                metal::float2 s1_ = float2(as_type<half2>(_e165)) * 0.007874016;
                metal::uint4 k0_ = keys[at + 0u];
                metal::uint4 k1_ = keys[at + 1u];
                metal::uint4 k2_ = keys[at + 2u];
                metal::uint4 k3_ = keys[at + 3u];
                metal::uint4 k4_ = keys[at + 4u];
                metal::uint4 k5_ = keys[at + 5u];
                metal::uint4 k6_ = keys[at + 6u];
                metal::uint4 k7_ = keys[at + 7u];
                metal::float4 _e211 = query.inner[0];
                e0_ = _e211 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.x)));
                metal::float4 _e217 = e0_;
                metal::float4 _e220 = query.inner[1];
                e0_ = _e217 + (_e220 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.y))));
                metal::float4 _e226 = e0_;
                metal::float4 _e229 = query.inner[2];
                e0_ = _e226 + (_e229 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.z))));
                metal::float4 _e235 = e0_;
                metal::float4 _e238 = query.inner[3];
                e0_ = _e235 + (_e238 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.w))));
                metal::float4 _e244 = e0_;
                metal::float4 _e247 = query.inner[4];
                e0_ = _e244 + (_e247 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.x))));
                metal::float4 _e253 = e0_;
                metal::float4 _e256 = query.inner[5];
                e0_ = _e253 + (_e256 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.y))));
                metal::float4 _e262 = e0_;
                metal::float4 _e265 = query.inner[6];
                e0_ = _e262 + (_e265 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.z))));
                metal::float4 _e271 = e0_;
                metal::float4 _e274 = query.inner[7];
                e0_ = _e271 + (_e274 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.w))));
                metal::float4 _e280 = d;
                metal::float4 _e281 = e0_;
                d = _e280 + (_e281 * s0_.x);
                metal::float4 _e287 = query.inner[8];
                e1_ = _e287 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.x)));
                metal::float4 _e293 = e1_;
                metal::float4 _e296 = query.inner[9];
                e1_ = _e293 + (_e296 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.y))));
                metal::float4 _e302 = e1_;
                metal::float4 _e305 = query.inner[10];
                e1_ = _e302 + (_e305 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.z))));
                metal::float4 _e311 = e1_;
                metal::float4 _e314 = query.inner[11];
                e1_ = _e311 + (_e314 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.w))));
                metal::float4 _e320 = e1_;
                metal::float4 _e323 = query.inner[12];
                e1_ = _e320 + (_e323 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.x))));
                metal::float4 _e329 = e1_;
                metal::float4 _e332 = query.inner[13];
                e1_ = _e329 + (_e332 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.y))));
                metal::float4 _e338 = e1_;
                metal::float4 _e341 = query.inner[14];
                e1_ = _e338 + (_e341 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.z))));
                metal::float4 _e347 = e1_;
                metal::float4 _e350 = query.inner[15];
                e1_ = _e347 + (_e350 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.w))));
                metal::float4 _e356 = d;
                metal::float4 _e357 = e1_;
                d = _e356 + (_e357 * s0_.y);
                metal::float4 _e363 = query.inner[16];
                e2_ = _e363 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.x)));
                metal::float4 _e369 = e2_;
                metal::float4 _e372 = query.inner[17];
                e2_ = _e369 + (_e372 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.y))));
                metal::float4 _e378 = e2_;
                metal::float4 _e381 = query.inner[18];
                e2_ = _e378 + (_e381 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.z))));
                metal::float4 _e387 = e2_;
                metal::float4 _e390 = query.inner[19];
                e2_ = _e387 + (_e390 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.w))));
                metal::float4 _e396 = e2_;
                metal::float4 _e399 = query.inner[20];
                e2_ = _e396 + (_e399 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.x))));
                metal::float4 _e405 = e2_;
                metal::float4 _e408 = query.inner[21];
                e2_ = _e405 + (_e408 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.y))));
                metal::float4 _e414 = e2_;
                metal::float4 _e417 = query.inner[22];
                e2_ = _e414 + (_e417 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.z))));
                metal::float4 _e423 = e2_;
                metal::float4 _e426 = query.inner[23];
                e2_ = _e423 + (_e426 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.w))));
                metal::float4 _e432 = d;
                metal::float4 _e433 = e2_;
                d = _e432 + (_e433 * s1_.x);
                metal::float4 _e439 = query.inner[24];
                e3_ = _e439 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.x)));
                metal::float4 _e445 = e3_;
                metal::float4 _e448 = query.inner[25];
                e3_ = _e445 + (_e448 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.y))));
                metal::float4 _e454 = e3_;
                metal::float4 _e457 = query.inner[26];
                e3_ = _e454 + (_e457 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.z))));
                metal::float4 _e463 = e3_;
                metal::float4 _e466 = query.inner[27];
                e3_ = _e463 + (_e466 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.w))));
                metal::float4 _e472 = e3_;
                metal::float4 _e475 = query.inner[28];
                e3_ = _e472 + (_e475 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.x))));
                metal::float4 _e481 = e3_;
                metal::float4 _e484 = query.inner[29];
                e3_ = _e481 + (_e484 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.y))));
                metal::float4 _e490 = e3_;
                metal::float4 _e493 = query.inner[30];
                e3_ = _e490 + (_e493 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.z))));
                metal::float4 _e499 = e3_;
                metal::float4 _e502 = query.inner[31];
                e3_ = _e499 + (_e502 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.w))));
                metal::float4 _e508 = d;
                metal::float4 _e509 = e3_;
                d = _e508 + (_e509 * s1_.y);
                float _e514 = d.x;
                float _e516 = d.y;
                float _e519 = d.z;
                float _e522 = d.w;
                score = ((_e514 + _e516) + _e519) + _e522;
                float _e526 = job.softcap;
                float _e527 = score;
                float _e530 = job.softcap;
                score = _e526 * metal::tanh(metal::clamp(_e527 / _e530, -15.0, 15.0));
            }
            float _e544 = score;
            scores.inner[lid >> 2u][lid & 3u] = _e544;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::float4 _e547 = scores.inner[0];
            most = _e547;
            metal::float4 _e549 = most;
            metal::float4 _e552 = scores.inner[1];
            most = metal::max(_e549, _e552);
            metal::float4 _e554 = most;
            metal::float4 _e557 = scores.inner[2];
            most = metal::max(_e554, _e557);
            metal::float4 _e559 = most;
            metal::float4 _e562 = scores.inner[3];
            most = metal::max(_e559, _e562);
            metal::float4 _e564 = most;
            metal::float4 _e567 = scores.inner[4];
            most = metal::max(_e564, _e567);
            metal::float4 _e569 = most;
            metal::float4 _e572 = scores.inner[5];
            most = metal::max(_e569, _e572);
            metal::float4 _e574 = most;
            metal::float4 _e577 = scores.inner[6];
            most = metal::max(_e574, _e577);
            metal::float4 _e579 = most;
            metal::float4 _e582 = scores.inner[7];
            most = metal::max(_e579, _e582);
            metal::float4 _e584 = most;
            metal::float4 _e587 = scores.inner[8];
            most = metal::max(_e584, _e587);
            metal::float4 _e589 = most;
            metal::float4 _e592 = scores.inner[9];
            most = metal::max(_e589, _e592);
            metal::float4 _e594 = most;
            metal::float4 _e597 = scores.inner[10];
            most = metal::max(_e594, _e597);
            metal::float4 _e599 = most;
            metal::float4 _e602 = scores.inner[11];
            most = metal::max(_e599, _e602);
            metal::float4 _e604 = most;
            metal::float4 _e607 = scores.inner[12];
            most = metal::max(_e604, _e607);
            metal::float4 _e609 = most;
            metal::float4 _e612 = scores.inner[13];
            most = metal::max(_e609, _e612);
            metal::float4 _e614 = most;
            metal::float4 _e617 = scores.inner[14];
            most = metal::max(_e614, _e617);
            metal::float4 _e619 = most;
            metal::float4 _e622 = scores.inner[15];
            most = metal::max(_e619, _e622);
            float _e624 = largest;
            float _e626 = most.x;
            float _e628 = most.y;
            float _e631 = most.z;
            float _e633 = most.w;
            float now = metal::max(_e624, metal::max(metal::max(_e626, _e628), metal::max(_e631, _e633)));
            float _e637 = largest;
            float factor = metal::exp(_e637 - now);
            largest = now;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            float _e647 = score;
            scores.inner[lid >> 2u][lid & 3u] = (p < end) ? metal::exp(_e647 - now) : 0.0;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::float4 _e655 = scores.inner[0];
            all = _e655;
            metal::float4 _e657 = all;
            metal::float4 _e660 = scores.inner[1];
            all = _e657 + _e660;
            metal::float4 _e662 = all;
            metal::float4 _e665 = scores.inner[2];
            all = _e662 + _e665;
            metal::float4 _e667 = all;
            metal::float4 _e670 = scores.inner[3];
            all = _e667 + _e670;
            metal::float4 _e672 = all;
            metal::float4 _e675 = scores.inner[4];
            all = _e672 + _e675;
            metal::float4 _e677 = all;
            metal::float4 _e680 = scores.inner[5];
            all = _e677 + _e680;
            metal::float4 _e682 = all;
            metal::float4 _e685 = scores.inner[6];
            all = _e682 + _e685;
            metal::float4 _e687 = all;
            metal::float4 _e690 = scores.inner[7];
            all = _e687 + _e690;
            metal::float4 _e692 = all;
            metal::float4 _e695 = scores.inner[8];
            all = _e692 + _e695;
            metal::float4 _e697 = all;
            metal::float4 _e700 = scores.inner[9];
            all = _e697 + _e700;
            metal::float4 _e702 = all;
            metal::float4 _e705 = scores.inner[10];
            all = _e702 + _e705;
            metal::float4 _e707 = all;
            metal::float4 _e710 = scores.inner[11];
            all = _e707 + _e710;
            metal::float4 _e712 = all;
            metal::float4 _e715 = scores.inner[12];
            all = _e712 + _e715;
            metal::float4 _e717 = all;
            metal::float4 _e720 = scores.inner[13];
            all = _e717 + _e720;
            metal::float4 _e722 = all;
            metal::float4 _e725 = scores.inner[14];
            all = _e722 + _e725;
            metal::float4 _e727 = all;
            metal::float4 _e730 = scores.inner[15];
            all = _e727 + _e730;
            float _e732 = total;
            float _e735 = all.x;
            float _e738 = all.y;
            float _e741 = all.z;
            float _e744 = all.w;
            total = ((((_e732 * factor) + _e735) + _e738) + _e741) + _e744;
            uint _e747 = start;
            uint last = metal::min(63u, (end - _e747) - 1u);
            metal::float4 _e752 = o0_0_;
            o0_0_ = _e752 * factor;
            metal::float4 _e754 = o0_1_;
            o0_1_ = _e754 * factor;
            metal::float4 _e756 = o0_2_;
            o0_2_ = _e756 * factor;
            metal::float4 _e758 = o0_3_;
            o0_3_ = _e758 * factor;
            if ((lid + 0u) < 64u) {
                uint mine = value_base + naga_mod(lid, 8u);
                uint g = naga_div(lid, 8u);
                uint f = naga_div(naga_mod(lid, 8u), 2u);
                uint _e775 = job.context;
                uint _e778 = job.kv_heads;
                uint h = (_e775 * ((_e778 * 2u) + (kv * 2u))) + (f >> 1u);
                uint half_at = (f & 1u) * 16u;
                uint p0_ = g + 0u;
                uint _e795 = start;
                metal::uint4 v0_ = values[mine + ((_e795 + metal::min(p0_, last)) * 8u)];
                uint _e804 = start;
                uint c0_ = scales[h + ((_e804 + metal::min(p0_, last)) * 2u)];
                uint p1_ = g + 8u;
                uint _e815 = start;
                metal::uint4 v1_ = values[mine + ((_e815 + metal::min(p1_, last)) * 8u)];
                uint _e824 = start;
                uint c1_ = scales[h + ((_e824 + metal::min(p1_, last)) * 2u)];
                uint p2_ = g + 16u;
                uint _e835 = start;
                metal::uint4 v2_ = values[mine + ((_e835 + metal::min(p2_, last)) * 8u)];
                uint _e844 = start;
                uint c2_ = scales[h + ((_e844 + metal::min(p2_, last)) * 2u)];
                uint p3_ = g + 24u;
                uint _e855 = start;
                metal::uint4 v3_ = values[mine + ((_e855 + metal::min(p3_, last)) * 8u)];
                uint _e864 = start;
                uint c3_ = scales[h + ((_e864 + metal::min(p3_, last)) * 2u)];
                uint p4_ = g + 32u;
                uint _e875 = start;
                metal::uint4 v4_ = values[mine + ((_e875 + metal::min(p4_, last)) * 8u)];
                uint _e884 = start;
                uint c4_ = scales[h + ((_e884 + metal::min(p4_, last)) * 2u)];
                uint p5_ = g + 40u;
                uint _e895 = start;
                metal::uint4 v5_ = values[mine + ((_e895 + metal::min(p5_, last)) * 8u)];
                uint _e904 = start;
                uint c5_ = scales[h + ((_e904 + metal::min(p5_, last)) * 2u)];
                uint p6_ = g + 48u;
                uint _e915 = start;
                metal::uint4 v6_ = values[mine + ((_e915 + metal::min(p6_, last)) * 8u)];
                uint _e924 = start;
                uint c6_ = scales[h + ((_e924 + metal::min(p6_, last)) * 2u)];
                uint p7_ = g + 56u;
                uint _e935 = start;
                metal::uint4 v7_ = values[mine + ((_e935 + metal::min(p7_, last)) * 8u)];
                uint _e944 = start;
                uint c7_ = scales[h + ((_e944 + metal::min(p7_, last)) * 2u)];
                float _e959 = scores.inner[p0_ >> 2u][p0_ & 3u];
                float w0_ = _e959 * (float2(as_type<half2>((c0_ >> half_at))).x * 0.007874016);
                metal::float4 _e966 = o0_0_;
                o0_0_ = _e966 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.x))));
                metal::float4 _e972 = o0_1_;
                o0_1_ = _e972 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.y))));
                metal::float4 _e978 = o0_2_;
                o0_2_ = _e978 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.z))));
                metal::float4 _e984 = o0_3_;
                o0_3_ = _e984 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.w))));
                float _e997 = scores.inner[p1_ >> 2u][p1_ & 3u];
                float w1_ = _e997 * (float2(as_type<half2>((c1_ >> half_at))).x * 0.007874016);
                metal::float4 _e1004 = o0_0_;
                o0_0_ = _e1004 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.x))));
                metal::float4 _e1010 = o0_1_;
                o0_1_ = _e1010 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.y))));
                metal::float4 _e1016 = o0_2_;
                o0_2_ = _e1016 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.z))));
                metal::float4 _e1022 = o0_3_;
                o0_3_ = _e1022 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.w))));
                float _e1035 = scores.inner[p2_ >> 2u][p2_ & 3u];
                float w2_ = _e1035 * (float2(as_type<half2>((c2_ >> half_at))).x * 0.007874016);
                metal::float4 _e1042 = o0_0_;
                o0_0_ = _e1042 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.x))));
                metal::float4 _e1048 = o0_1_;
                o0_1_ = _e1048 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.y))));
                metal::float4 _e1054 = o0_2_;
                o0_2_ = _e1054 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.z))));
                metal::float4 _e1060 = o0_3_;
                o0_3_ = _e1060 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.w))));
                float _e1073 = scores.inner[p3_ >> 2u][p3_ & 3u];
                float w3_ = _e1073 * (float2(as_type<half2>((c3_ >> half_at))).x * 0.007874016);
                metal::float4 _e1080 = o0_0_;
                o0_0_ = _e1080 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.x))));
                metal::float4 _e1086 = o0_1_;
                o0_1_ = _e1086 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.y))));
                metal::float4 _e1092 = o0_2_;
                o0_2_ = _e1092 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.z))));
                metal::float4 _e1098 = o0_3_;
                o0_3_ = _e1098 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.w))));
                float _e1111 = scores.inner[p4_ >> 2u][p4_ & 3u];
                float w4_ = _e1111 * (float2(as_type<half2>((c4_ >> half_at))).x * 0.007874016);
                metal::float4 _e1118 = o0_0_;
                o0_0_ = _e1118 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.x))));
                metal::float4 _e1124 = o0_1_;
                o0_1_ = _e1124 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.y))));
                metal::float4 _e1130 = o0_2_;
                o0_2_ = _e1130 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.z))));
                metal::float4 _e1136 = o0_3_;
                o0_3_ = _e1136 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.w))));
                float _e1149 = scores.inner[p5_ >> 2u][p5_ & 3u];
                float w5_ = _e1149 * (float2(as_type<half2>((c5_ >> half_at))).x * 0.007874016);
                metal::float4 _e1156 = o0_0_;
                o0_0_ = _e1156 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.x))));
                metal::float4 _e1162 = o0_1_;
                o0_1_ = _e1162 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.y))));
                metal::float4 _e1168 = o0_2_;
                o0_2_ = _e1168 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.z))));
                metal::float4 _e1174 = o0_3_;
                o0_3_ = _e1174 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.w))));
                float _e1187 = scores.inner[p6_ >> 2u][p6_ & 3u];
                float w6_ = _e1187 * (float2(as_type<half2>((c6_ >> half_at))).x * 0.007874016);
                metal::float4 _e1194 = o0_0_;
                o0_0_ = _e1194 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.x))));
                metal::float4 _e1200 = o0_1_;
                o0_1_ = _e1200 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.y))));
                metal::float4 _e1206 = o0_2_;
                o0_2_ = _e1206 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.z))));
                metal::float4 _e1212 = o0_3_;
                o0_3_ = _e1212 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.w))));
                float _e1225 = scores.inner[p7_ >> 2u][p7_ & 3u];
                float w7_ = _e1225 * (float2(as_type<half2>((c7_ >> half_at))).x * 0.007874016);
                metal::float4 _e1232 = o0_0_;
                o0_0_ = _e1232 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.x))));
                metal::float4 _e1238 = o0_1_;
                o0_1_ = _e1238 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.y))));
                metal::float4 _e1244 = o0_2_;
                o0_2_ = _e1244 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.z))));
                metal::float4 _e1250 = o0_3_;
                o0_3_ = _e1250 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.w))));
            }
        }
    }
    if ((lid + 0u) < 64u) {
        uint to = (lid + 0u) * 16u;
        float _e1272 = o0_0_.x;
        sums.inner[to + 0u] = _e1272;
        float _e1278 = o0_0_.y;
        sums.inner[to + 1u] = _e1278;
        float _e1284 = o0_0_.z;
        sums.inner[to + 2u] = _e1284;
        float _e1290 = o0_0_.w;
        sums.inner[to + 3u] = _e1290;
        float _e1296 = o0_1_.x;
        sums.inner[to + 4u] = _e1296;
        float _e1302 = o0_1_.y;
        sums.inner[to + 5u] = _e1302;
        float _e1308 = o0_1_.z;
        sums.inner[to + 6u] = _e1308;
        float _e1314 = o0_1_.w;
        sums.inner[to + 7u] = _e1314;
        float _e1320 = o0_2_.x;
        sums.inner[to + 8u] = _e1320;
        float _e1326 = o0_2_.y;
        sums.inner[to + 9u] = _e1326;
        float _e1332 = o0_2_.z;
        sums.inner[to + 10u] = _e1332;
        float _e1338 = o0_2_.w;
        sums.inner[to + 11u] = _e1338;
        float _e1344 = o0_3_.x;
        sums.inner[to + 12u] = _e1344;
        float _e1350 = o0_3_.y;
        sums.inner[to + 13u] = _e1350;
        float _e1356 = o0_3_.z;
        sums.inner[to + 14u] = _e1356;
        float _e1362 = o0_3_.w;
        sums.inner[to + 15u] = _e1362;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e1365 = job.stride;
    uint _e1369 = job.head_stride;
    uint to_1 = (token * _e1365) + (head * _e1369);
    float _e1372 = total;
    float share = 1.0 / _e1372;
    i_1 = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e1437 = i_1;
            i_1 = _e1437 + 64u;
        }
        loop_init_2 = false;
        uint _e1376 = i_1;
        if (_e1376 < 128u) {
        } else {
            break;
        }
        {
            uint _e1380 = i_1;
            uint _e1384 = i_1;
            float _e1387 = sums.inner[0u + _e1384];
            uint _e1390 = i_1;
            float _e1393 = sums.inner[128u + _e1390];
            uint _e1397 = i_1;
            float _e1400 = sums.inner[256u + _e1397];
            uint _e1404 = i_1;
            float _e1407 = sums.inner[384u + _e1404];
            uint _e1411 = i_1;
            float _e1414 = sums.inner[512u + _e1411];
            uint _e1418 = i_1;
            float _e1421 = sums.inner[640u + _e1418];
            uint _e1425 = i_1;
            float _e1428 = sums.inner[768u + _e1425];
            uint _e1432 = i_1;
            float _e1435 = sums.inner[896u + _e1432];
            sums.inner[_e1380] = ((((((_e1387 + _e1393) + _e1400) + _e1407) + _e1414) + _e1421) + _e1428) + _e1435;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e1474 = apart;
            apart = _e1474 << 1u;
        }
        loop_init_3 = false;
        uint _e1442 = apart;
        if (_e1442 < 128u) {
        } else {
            break;
        }
        {
            i_2 = lid;
            uint2 loop_bound_4 = uint2(4294967295u);
            bool loop_init_4 = true;
            while(true) {
                if (metal::all(loop_bound_4 == uint2(0u))) { break; }
                loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
                if (!loop_init_4) {
                    uint _e1471 = i_2;
                    i_2 = _e1471 + 64u;
                }
                loop_init_4 = false;
                uint _e1446 = i_2;
                if (_e1446 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e1449 = i_2;
                    uint _e1450 = i_2;
                    uint _e1451 = apart;
                    uint a = _e1449 + (_e1450 & ~((_e1451 - 1u)));
                    uint _e1457 = apart;
                    uint b = a + _e1457;
                    float x = sums.inner[a];
                    float y = sums.inner[b];
                    sums.inner[a] = x + y;
                    sums.inner[b] = x - y;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    i_3 = lid;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e1487 = i_3;
            i_3 = _e1487 + 64u;
        }
        loop_init_5 = false;
        uint _e1478 = i_3;
        if (_e1478 < 128u) {
        } else {
            break;
        }
        {
            uint _e1482 = i_3;
            float _e1484 = sums.inner[_e1482];
            sums.inner[_e1482] = _e1484 * 0.088388346;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    i_4 = lid;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e1503 = i_4;
            i_4 = _e1503 + 64u;
        }
        loop_init_6 = false;
        uint _e1491 = i_4;
        if (_e1491 < 128u) {
        } else {
            break;
        }
        {
            uint _e1495 = i_4;
            uint _e1499 = i_4;
            float _e1501 = sums.inner[_e1499];
            parts[to_1 + _e1495] = _e1501 * share;
        }
    }
    return;
}
