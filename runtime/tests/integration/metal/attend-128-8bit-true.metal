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
    float largest = -1000000000000000000000000000000.0;
    float total = 0.0;
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
    uint _e19 = job.heads;
    uint _e23 = job.kv_heads;
    uint begin = ((token * (_e19 + (2u * _e23))) + head) * 128u;
    i = lid;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e76 = i;
            i = _e76 + 64u;
        }
        loop_init = false;
        uint _e31 = i;
        if (_e31 < 32u) {
        } else {
            break;
        }
        {
            uint _e35 = i;
            uint _e39 = i;
            float _e43 = qkv[begin + (4u * _e39)];
            uint _e46 = i;
            float _e52 = qkv[(begin + (4u * _e46)) + 1u];
            uint _e55 = i;
            float _e61 = qkv[(begin + (4u * _e55)) + 2u];
            uint _e64 = i;
            float _e70 = qkv[(begin + (4u * _e64)) + 3u];
            float _e74 = job.scale;
            query.inner[_e35] = metal::float4(_e43, _e52, _e61, _e70) * _e74;
        }
    }
    uint _e84 = job.window;
    uint _e90 = job.window;
    uint first = ((position + 1u) > _e90) ? ((position + 1u) - _e84) : 0u;
    uint end = position + 1u;
    uint _e97 = job.context;
    uint base = (kv * _e97) * 8u;
    start = first;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e1241 = start;
            start = _e1241 + 64u;
        }
        loop_init_1 = false;
        uint _e114 = start;
        if (_e114 < end) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e116 = start;
            uint p = _e116 + lid;
            score = -1000000000000000000000000000000.0;
            if (p < end) {
                d = metal::float4 {};
                uint at = base + (p * 8u);
                uint _e129 = job.context;
                uint _e137 = scales[(((kv * _e129) + p) * 2u) + 0u];
                metal::float2 s0_ = float2(as_type<half2>(_e137)) * 0.007874016;
                uint _e144 = job.context;
                uint _e152 = scales[(((kv * _e144) + p) * 2u) + 1u];
                metal::float2 s1_ = float2(as_type<half2>(_e152)) * 0.007874016;
                metal::uint4 k0_ = keys[at + 0u];
                metal::uint4 k1_ = keys[at + 1u];
                metal::uint4 k2_ = keys[at + 2u];
                metal::uint4 k3_ = keys[at + 3u];
                metal::uint4 k4_ = keys[at + 4u];
                metal::uint4 k5_ = keys[at + 5u];
                metal::uint4 k6_ = keys[at + 6u];
                metal::uint4 k7_ = keys[at + 7u];
                metal::float4 _e198 = query.inner[0];
                e0_ = _e198 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.x)));
                metal::float4 _e204 = e0_;
                metal::float4 _e207 = query.inner[1];
                e0_ = _e204 + (_e207 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.y))));
                metal::float4 _e213 = e0_;
                metal::float4 _e216 = query.inner[2];
                e0_ = _e213 + (_e216 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.z))));
                metal::float4 _e222 = e0_;
                metal::float4 _e225 = query.inner[3];
                e0_ = _e222 + (_e225 * static_cast<metal::float4>(int4(as_type<packed_char4>(k0_.w))));
                metal::float4 _e231 = e0_;
                metal::float4 _e234 = query.inner[4];
                e0_ = _e231 + (_e234 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.x))));
                metal::float4 _e240 = e0_;
                metal::float4 _e243 = query.inner[5];
                e0_ = _e240 + (_e243 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.y))));
                metal::float4 _e249 = e0_;
                metal::float4 _e252 = query.inner[6];
                e0_ = _e249 + (_e252 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.z))));
                metal::float4 _e258 = e0_;
                metal::float4 _e261 = query.inner[7];
                e0_ = _e258 + (_e261 * static_cast<metal::float4>(int4(as_type<packed_char4>(k1_.w))));
                metal::float4 _e267 = d;
                metal::float4 _e268 = e0_;
                d = _e267 + (_e268 * s0_.x);
                metal::float4 _e274 = query.inner[8];
                e1_ = _e274 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.x)));
                metal::float4 _e280 = e1_;
                metal::float4 _e283 = query.inner[9];
                e1_ = _e280 + (_e283 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.y))));
                metal::float4 _e289 = e1_;
                metal::float4 _e292 = query.inner[10];
                e1_ = _e289 + (_e292 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.z))));
                metal::float4 _e298 = e1_;
                metal::float4 _e301 = query.inner[11];
                e1_ = _e298 + (_e301 * static_cast<metal::float4>(int4(as_type<packed_char4>(k2_.w))));
                metal::float4 _e307 = e1_;
                metal::float4 _e310 = query.inner[12];
                e1_ = _e307 + (_e310 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.x))));
                metal::float4 _e316 = e1_;
                metal::float4 _e319 = query.inner[13];
                e1_ = _e316 + (_e319 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.y))));
                metal::float4 _e325 = e1_;
                metal::float4 _e328 = query.inner[14];
                e1_ = _e325 + (_e328 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.z))));
                metal::float4 _e334 = e1_;
                metal::float4 _e337 = query.inner[15];
                e1_ = _e334 + (_e337 * static_cast<metal::float4>(int4(as_type<packed_char4>(k3_.w))));
                metal::float4 _e343 = d;
                metal::float4 _e344 = e1_;
                d = _e343 + (_e344 * s0_.y);
                metal::float4 _e350 = query.inner[16];
                e2_ = _e350 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.x)));
                metal::float4 _e356 = e2_;
                metal::float4 _e359 = query.inner[17];
                e2_ = _e356 + (_e359 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.y))));
                metal::float4 _e365 = e2_;
                metal::float4 _e368 = query.inner[18];
                e2_ = _e365 + (_e368 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.z))));
                metal::float4 _e374 = e2_;
                metal::float4 _e377 = query.inner[19];
                e2_ = _e374 + (_e377 * static_cast<metal::float4>(int4(as_type<packed_char4>(k4_.w))));
                metal::float4 _e383 = e2_;
                metal::float4 _e386 = query.inner[20];
                e2_ = _e383 + (_e386 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.x))));
                metal::float4 _e392 = e2_;
                metal::float4 _e395 = query.inner[21];
                e2_ = _e392 + (_e395 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.y))));
                metal::float4 _e401 = e2_;
                metal::float4 _e404 = query.inner[22];
                e2_ = _e401 + (_e404 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.z))));
                metal::float4 _e410 = e2_;
                metal::float4 _e413 = query.inner[23];
                e2_ = _e410 + (_e413 * static_cast<metal::float4>(int4(as_type<packed_char4>(k5_.w))));
                metal::float4 _e419 = d;
                metal::float4 _e420 = e2_;
                d = _e419 + (_e420 * s1_.x);
                metal::float4 _e426 = query.inner[24];
                e3_ = _e426 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.x)));
                metal::float4 _e432 = e3_;
                metal::float4 _e435 = query.inner[25];
                e3_ = _e432 + (_e435 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.y))));
                metal::float4 _e441 = e3_;
                metal::float4 _e444 = query.inner[26];
                e3_ = _e441 + (_e444 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.z))));
                metal::float4 _e450 = e3_;
                metal::float4 _e453 = query.inner[27];
                e3_ = _e450 + (_e453 * static_cast<metal::float4>(int4(as_type<packed_char4>(k6_.w))));
                metal::float4 _e459 = e3_;
                metal::float4 _e462 = query.inner[28];
                e3_ = _e459 + (_e462 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.x))));
                metal::float4 _e468 = e3_;
                metal::float4 _e471 = query.inner[29];
                e3_ = _e468 + (_e471 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.y))));
                metal::float4 _e477 = e3_;
                metal::float4 _e480 = query.inner[30];
                e3_ = _e477 + (_e480 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.z))));
                metal::float4 _e486 = e3_;
                metal::float4 _e489 = query.inner[31];
                e3_ = _e486 + (_e489 * static_cast<metal::float4>(int4(as_type<packed_char4>(k7_.w))));
                metal::float4 _e495 = d;
                metal::float4 _e496 = e3_;
                d = _e495 + (_e496 * s1_.y);
                float _e501 = d.x;
                float _e503 = d.y;
                float _e506 = d.z;
                float _e509 = d.w;
                score = ((_e501 + _e503) + _e506) + _e509;
                float _e513 = job.softcap;
                float _e514 = score;
                float _e517 = job.softcap;
                score = _e513 * metal::tanh(metal::clamp(_e514 / _e517, -15.0, 15.0));
            }
            float _e531 = score;
            scores.inner[lid >> 2u][lid & 3u] = _e531;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::float4 _e534 = scores.inner[0];
            most = _e534;
            metal::float4 _e536 = most;
            metal::float4 _e539 = scores.inner[1];
            most = metal::max(_e536, _e539);
            metal::float4 _e541 = most;
            metal::float4 _e544 = scores.inner[2];
            most = metal::max(_e541, _e544);
            metal::float4 _e546 = most;
            metal::float4 _e549 = scores.inner[3];
            most = metal::max(_e546, _e549);
            metal::float4 _e551 = most;
            metal::float4 _e554 = scores.inner[4];
            most = metal::max(_e551, _e554);
            metal::float4 _e556 = most;
            metal::float4 _e559 = scores.inner[5];
            most = metal::max(_e556, _e559);
            metal::float4 _e561 = most;
            metal::float4 _e564 = scores.inner[6];
            most = metal::max(_e561, _e564);
            metal::float4 _e566 = most;
            metal::float4 _e569 = scores.inner[7];
            most = metal::max(_e566, _e569);
            metal::float4 _e571 = most;
            metal::float4 _e574 = scores.inner[8];
            most = metal::max(_e571, _e574);
            metal::float4 _e576 = most;
            metal::float4 _e579 = scores.inner[9];
            most = metal::max(_e576, _e579);
            metal::float4 _e581 = most;
            metal::float4 _e584 = scores.inner[10];
            most = metal::max(_e581, _e584);
            metal::float4 _e586 = most;
            metal::float4 _e589 = scores.inner[11];
            most = metal::max(_e586, _e589);
            metal::float4 _e591 = most;
            metal::float4 _e594 = scores.inner[12];
            most = metal::max(_e591, _e594);
            metal::float4 _e596 = most;
            metal::float4 _e599 = scores.inner[13];
            most = metal::max(_e596, _e599);
            metal::float4 _e601 = most;
            metal::float4 _e604 = scores.inner[14];
            most = metal::max(_e601, _e604);
            metal::float4 _e606 = most;
            metal::float4 _e609 = scores.inner[15];
            most = metal::max(_e606, _e609);
            float _e611 = largest;
            float _e613 = most.x;
            float _e615 = most.y;
            float _e618 = most.z;
            float _e620 = most.w;
            float now = metal::max(_e611, metal::max(metal::max(_e613, _e615), metal::max(_e618, _e620)));
            float _e624 = largest;
            float factor = metal::exp(_e624 - now);
            largest = now;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            float _e634 = score;
            scores.inner[lid >> 2u][lid & 3u] = (p < end) ? metal::exp(_e634 - now) : 0.0;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::float4 _e642 = scores.inner[0];
            all = _e642;
            metal::float4 _e644 = all;
            metal::float4 _e647 = scores.inner[1];
            all = _e644 + _e647;
            metal::float4 _e649 = all;
            metal::float4 _e652 = scores.inner[2];
            all = _e649 + _e652;
            metal::float4 _e654 = all;
            metal::float4 _e657 = scores.inner[3];
            all = _e654 + _e657;
            metal::float4 _e659 = all;
            metal::float4 _e662 = scores.inner[4];
            all = _e659 + _e662;
            metal::float4 _e664 = all;
            metal::float4 _e667 = scores.inner[5];
            all = _e664 + _e667;
            metal::float4 _e669 = all;
            metal::float4 _e672 = scores.inner[6];
            all = _e669 + _e672;
            metal::float4 _e674 = all;
            metal::float4 _e677 = scores.inner[7];
            all = _e674 + _e677;
            metal::float4 _e679 = all;
            metal::float4 _e682 = scores.inner[8];
            all = _e679 + _e682;
            metal::float4 _e684 = all;
            metal::float4 _e687 = scores.inner[9];
            all = _e684 + _e687;
            metal::float4 _e689 = all;
            metal::float4 _e692 = scores.inner[10];
            all = _e689 + _e692;
            metal::float4 _e694 = all;
            metal::float4 _e697 = scores.inner[11];
            all = _e694 + _e697;
            metal::float4 _e699 = all;
            metal::float4 _e702 = scores.inner[12];
            all = _e699 + _e702;
            metal::float4 _e704 = all;
            metal::float4 _e707 = scores.inner[13];
            all = _e704 + _e707;
            metal::float4 _e709 = all;
            metal::float4 _e712 = scores.inner[14];
            all = _e709 + _e712;
            metal::float4 _e714 = all;
            metal::float4 _e717 = scores.inner[15];
            all = _e714 + _e717;
            float _e719 = total;
            float _e722 = all.x;
            float _e725 = all.y;
            float _e728 = all.z;
            float _e731 = all.w;
            total = ((((_e719 * factor) + _e722) + _e725) + _e728) + _e731;
            uint _e734 = start;
            uint last = metal::min(63u, (end - _e734) - 1u);
            metal::float4 _e739 = o0_0_;
            o0_0_ = _e739 * factor;
            metal::float4 _e741 = o0_1_;
            o0_1_ = _e741 * factor;
            metal::float4 _e743 = o0_2_;
            o0_2_ = _e743 * factor;
            metal::float4 _e745 = o0_3_;
            o0_3_ = _e745 * factor;
            if ((lid + 0u) < 64u) {
                uint mine = base + naga_mod(lid, 8u);
                uint g = naga_div(lid, 8u);
                uint f = naga_div(naga_mod(lid, 8u), 2u);
                uint _e762 = job.kv_heads;
                uint _e766 = job.context;
                uint h = (((_e762 + kv) * _e766) * 2u) + (f >> 1u);
                uint half_at = (f & 1u) * 16u;
                uint p0_ = g + 0u;
                uint _e780 = start;
                metal::uint4 v0_ = values[mine + ((_e780 + metal::min(p0_, last)) * 8u)];
                uint _e789 = start;
                uint f0_ = scales[h + ((_e789 + metal::min(p0_, last)) * 2u)];
                uint p1_ = g + 8u;
                uint _e800 = start;
                metal::uint4 v1_ = values[mine + ((_e800 + metal::min(p1_, last)) * 8u)];
                uint _e809 = start;
                uint f1_ = scales[h + ((_e809 + metal::min(p1_, last)) * 2u)];
                uint p2_ = g + 16u;
                uint _e820 = start;
                metal::uint4 v2_ = values[mine + ((_e820 + metal::min(p2_, last)) * 8u)];
                uint _e829 = start;
                uint f2_ = scales[h + ((_e829 + metal::min(p2_, last)) * 2u)];
                uint p3_ = g + 24u;
                uint _e840 = start;
                metal::uint4 v3_ = values[mine + ((_e840 + metal::min(p3_, last)) * 8u)];
                uint _e849 = start;
                uint f3_ = scales[h + ((_e849 + metal::min(p3_, last)) * 2u)];
                uint p4_ = g + 32u;
                uint _e860 = start;
                metal::uint4 v4_ = values[mine + ((_e860 + metal::min(p4_, last)) * 8u)];
                uint _e869 = start;
                uint f4_ = scales[h + ((_e869 + metal::min(p4_, last)) * 2u)];
                uint p5_ = g + 40u;
                uint _e880 = start;
                metal::uint4 v5_ = values[mine + ((_e880 + metal::min(p5_, last)) * 8u)];
                uint _e889 = start;
                uint f5_ = scales[h + ((_e889 + metal::min(p5_, last)) * 2u)];
                uint p6_ = g + 48u;
                uint _e900 = start;
                metal::uint4 v6_ = values[mine + ((_e900 + metal::min(p6_, last)) * 8u)];
                uint _e909 = start;
                uint f6_ = scales[h + ((_e909 + metal::min(p6_, last)) * 2u)];
                uint p7_ = g + 56u;
                uint _e920 = start;
                metal::uint4 v7_ = values[mine + ((_e920 + metal::min(p7_, last)) * 8u)];
                uint _e929 = start;
                uint f7_ = scales[h + ((_e929 + metal::min(p7_, last)) * 2u)];
                float _e944 = scores.inner[p0_ >> 2u][p0_ & 3u];
                float w0_ = _e944 * (float2(as_type<half2>((f0_ >> half_at))).x * 0.007874016);
                metal::float4 _e951 = o0_0_;
                o0_0_ = _e951 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.x))));
                metal::float4 _e957 = o0_1_;
                o0_1_ = _e957 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.y))));
                metal::float4 _e963 = o0_2_;
                o0_2_ = _e963 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.z))));
                metal::float4 _e969 = o0_3_;
                o0_3_ = _e969 + (w0_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v0_.w))));
                float _e982 = scores.inner[p1_ >> 2u][p1_ & 3u];
                float w1_ = _e982 * (float2(as_type<half2>((f1_ >> half_at))).x * 0.007874016);
                metal::float4 _e989 = o0_0_;
                o0_0_ = _e989 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.x))));
                metal::float4 _e995 = o0_1_;
                o0_1_ = _e995 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.y))));
                metal::float4 _e1001 = o0_2_;
                o0_2_ = _e1001 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.z))));
                metal::float4 _e1007 = o0_3_;
                o0_3_ = _e1007 + (w1_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v1_.w))));
                float _e1020 = scores.inner[p2_ >> 2u][p2_ & 3u];
                float w2_ = _e1020 * (float2(as_type<half2>((f2_ >> half_at))).x * 0.007874016);
                metal::float4 _e1027 = o0_0_;
                o0_0_ = _e1027 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.x))));
                metal::float4 _e1033 = o0_1_;
                o0_1_ = _e1033 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.y))));
                metal::float4 _e1039 = o0_2_;
                o0_2_ = _e1039 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.z))));
                metal::float4 _e1045 = o0_3_;
                o0_3_ = _e1045 + (w2_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v2_.w))));
                float _e1058 = scores.inner[p3_ >> 2u][p3_ & 3u];
                float w3_ = _e1058 * (float2(as_type<half2>((f3_ >> half_at))).x * 0.007874016);
                metal::float4 _e1065 = o0_0_;
                o0_0_ = _e1065 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.x))));
                metal::float4 _e1071 = o0_1_;
                o0_1_ = _e1071 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.y))));
                metal::float4 _e1077 = o0_2_;
                o0_2_ = _e1077 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.z))));
                metal::float4 _e1083 = o0_3_;
                o0_3_ = _e1083 + (w3_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v3_.w))));
                float _e1096 = scores.inner[p4_ >> 2u][p4_ & 3u];
                float w4_ = _e1096 * (float2(as_type<half2>((f4_ >> half_at))).x * 0.007874016);
                metal::float4 _e1103 = o0_0_;
                o0_0_ = _e1103 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.x))));
                metal::float4 _e1109 = o0_1_;
                o0_1_ = _e1109 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.y))));
                metal::float4 _e1115 = o0_2_;
                o0_2_ = _e1115 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.z))));
                metal::float4 _e1121 = o0_3_;
                o0_3_ = _e1121 + (w4_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v4_.w))));
                float _e1134 = scores.inner[p5_ >> 2u][p5_ & 3u];
                float w5_ = _e1134 * (float2(as_type<half2>((f5_ >> half_at))).x * 0.007874016);
                metal::float4 _e1141 = o0_0_;
                o0_0_ = _e1141 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.x))));
                metal::float4 _e1147 = o0_1_;
                o0_1_ = _e1147 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.y))));
                metal::float4 _e1153 = o0_2_;
                o0_2_ = _e1153 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.z))));
                metal::float4 _e1159 = o0_3_;
                o0_3_ = _e1159 + (w5_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v5_.w))));
                float _e1172 = scores.inner[p6_ >> 2u][p6_ & 3u];
                float w6_ = _e1172 * (float2(as_type<half2>((f6_ >> half_at))).x * 0.007874016);
                metal::float4 _e1179 = o0_0_;
                o0_0_ = _e1179 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.x))));
                metal::float4 _e1185 = o0_1_;
                o0_1_ = _e1185 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.y))));
                metal::float4 _e1191 = o0_2_;
                o0_2_ = _e1191 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.z))));
                metal::float4 _e1197 = o0_3_;
                o0_3_ = _e1197 + (w6_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v6_.w))));
                float _e1210 = scores.inner[p7_ >> 2u][p7_ & 3u];
                float w7_ = _e1210 * (float2(as_type<half2>((f7_ >> half_at))).x * 0.007874016);
                metal::float4 _e1217 = o0_0_;
                o0_0_ = _e1217 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.x))));
                metal::float4 _e1223 = o0_1_;
                o0_1_ = _e1223 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.y))));
                metal::float4 _e1229 = o0_2_;
                o0_2_ = _e1229 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.z))));
                metal::float4 _e1235 = o0_3_;
                o0_3_ = _e1235 + (w7_ * static_cast<metal::float4>(int4(as_type<packed_char4>(v7_.w))));
            }
        }
    }
    if ((lid + 0u) < 64u) {
        uint to = (lid + 0u) * 16u;
        float _e1257 = o0_0_.x;
        sums.inner[to + 0u] = _e1257;
        float _e1263 = o0_0_.y;
        sums.inner[to + 1u] = _e1263;
        float _e1269 = o0_0_.z;
        sums.inner[to + 2u] = _e1269;
        float _e1275 = o0_0_.w;
        sums.inner[to + 3u] = _e1275;
        float _e1281 = o0_1_.x;
        sums.inner[to + 4u] = _e1281;
        float _e1287 = o0_1_.y;
        sums.inner[to + 5u] = _e1287;
        float _e1293 = o0_1_.z;
        sums.inner[to + 6u] = _e1293;
        float _e1299 = o0_1_.w;
        sums.inner[to + 7u] = _e1299;
        float _e1305 = o0_2_.x;
        sums.inner[to + 8u] = _e1305;
        float _e1311 = o0_2_.y;
        sums.inner[to + 9u] = _e1311;
        float _e1317 = o0_2_.z;
        sums.inner[to + 10u] = _e1317;
        float _e1323 = o0_2_.w;
        sums.inner[to + 11u] = _e1323;
        float _e1329 = o0_3_.x;
        sums.inner[to + 12u] = _e1329;
        float _e1335 = o0_3_.y;
        sums.inner[to + 13u] = _e1335;
        float _e1341 = o0_3_.z;
        sums.inner[to + 14u] = _e1341;
        float _e1347 = o0_3_.w;
        sums.inner[to + 15u] = _e1347;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e1350 = job.stride;
    uint to_1 = (token * _e1350) + (head * 128u);
    float _e1355 = total;
    float share = 1.0 / _e1355;
    i_1 = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e1420 = i_1;
            i_1 = _e1420 + 64u;
        }
        loop_init_2 = false;
        uint _e1359 = i_1;
        if (_e1359 < 128u) {
        } else {
            break;
        }
        {
            uint _e1363 = i_1;
            uint _e1367 = i_1;
            float _e1370 = sums.inner[0u + _e1367];
            uint _e1373 = i_1;
            float _e1376 = sums.inner[128u + _e1373];
            uint _e1380 = i_1;
            float _e1383 = sums.inner[256u + _e1380];
            uint _e1387 = i_1;
            float _e1390 = sums.inner[384u + _e1387];
            uint _e1394 = i_1;
            float _e1397 = sums.inner[512u + _e1394];
            uint _e1401 = i_1;
            float _e1404 = sums.inner[640u + _e1401];
            uint _e1408 = i_1;
            float _e1411 = sums.inner[768u + _e1408];
            uint _e1415 = i_1;
            float _e1418 = sums.inner[896u + _e1415];
            sums.inner[_e1363] = ((((((_e1370 + _e1376) + _e1383) + _e1390) + _e1397) + _e1404) + _e1411) + _e1418;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e1457 = apart;
            apart = _e1457 << 1u;
        }
        loop_init_3 = false;
        uint _e1425 = apart;
        if (_e1425 < 128u) {
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
                    uint _e1454 = i_2;
                    i_2 = _e1454 + 64u;
                }
                loop_init_4 = false;
                uint _e1429 = i_2;
                if (_e1429 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e1432 = i_2;
                    uint _e1433 = i_2;
                    uint _e1434 = apart;
                    uint a = _e1432 + (_e1433 & ~((_e1434 - 1u)));
                    uint _e1440 = apart;
                    uint b = a + _e1440;
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
            uint _e1470 = i_3;
            i_3 = _e1470 + 64u;
        }
        loop_init_5 = false;
        uint _e1461 = i_3;
        if (_e1461 < 128u) {
        } else {
            break;
        }
        {
            uint _e1465 = i_3;
            float _e1467 = sums.inner[_e1465];
            sums.inner[_e1465] = _e1467 * 0.088388346;
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
            uint _e1486 = i_4;
            i_4 = _e1486 + 64u;
        }
        loop_init_6 = false;
        uint _e1474 = i_4;
        if (_e1474 < 128u) {
        } else {
            break;
        }
        {
            uint _e1478 = i_4;
            uint _e1482 = i_4;
            float _e1484 = sums.inner[_e1482];
            parts[to_1 + _e1478] = _e1484 * share;
        }
    }
    return;
}
