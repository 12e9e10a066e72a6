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
    uint next;
    uint added;
    float epsilon;
    uint stride;
    float given;
    float share;
    float scale;
};
typedef float type_2[1];
struct type_3 {
    float inner[128];
};
struct type_4 {
    float inner[32];
};

float sum(
    uint lid_1,
    float value,
    threadgroup type_3& part,
    threadgroup type_4& some
) {
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    part.inner[lid_1] = value;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (lid_1 < 32u) {
        float _e12 = part.inner[lid_1 + 0u];
        float _e17 = part.inner[lid_1 + 32u];
        float _e23 = part.inner[lid_1 + 64u];
        float _e29 = part.inner[lid_1 + 96u];
        some.inner[lid_1] = ((_e12 + _e17) + _e23) + _e29;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e33 = some.inner[0];
    float _e36 = some.inner[1];
    float _e40 = some.inner[2];
    float _e44 = some.inner[3];
    float _e48 = some.inner[4];
    float _e52 = some.inner[5];
    float _e56 = some.inner[6];
    float _e60 = some.inner[7];
    float _e64 = some.inner[8];
    float _e68 = some.inner[9];
    float _e72 = some.inner[10];
    float _e76 = some.inner[11];
    float _e80 = some.inner[12];
    float _e84 = some.inner[13];
    float _e88 = some.inner[14];
    float _e92 = some.inner[15];
    float _e96 = some.inner[16];
    float _e100 = some.inner[17];
    float _e104 = some.inner[18];
    float _e108 = some.inner[19];
    float _e112 = some.inner[20];
    float _e116 = some.inner[21];
    float _e120 = some.inner[22];
    float _e124 = some.inner[23];
    float _e128 = some.inner[24];
    float _e132 = some.inner[25];
    float _e136 = some.inner[26];
    float _e140 = some.inner[27];
    float _e144 = some.inner[28];
    float _e148 = some.inner[29];
    float _e152 = some.inner[30];
    float _e156 = some.inner[31];
    return ((((((((((((((((((((((((((((((_e33 + _e36) + _e40) + _e44) + _e48) + _e52) + _e56) + _e60) + _e64) + _e68) + _e72) + _e76) + _e80) + _e84) + _e88) + _e92) + _e96) + _e100) + _e104) + _e108) + _e112) + _e116) + _e120) + _e124) + _e128) + _e132) + _e136) + _e140) + _e144) + _e148) + _e152) + _e156;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_2& hidden [[user(fake0)]]
, device type_2 const& projected [[user(fake0)]]
, device type_2& normed [[user(fake0)]]
, device type_2 const& vectors [[user(fake0)]]
, threadgroup type_3& part
, threadgroup type_4& some
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        part = {};
        some = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint at = group.x * 200u;
    float h0_ = hidden[at + (lid + 0u)];
    float h1_ = hidden[at + metal::min(lid + 128u, 199u)];
    float _e24 = projected[at + (lid + 0u)];
    float _e27 = job.given;
    float p0_ = _e24 * _e27;
    float _e36 = projected[at + metal::min(lid + 128u, 199u)];
    float _e39 = job.given;
    float p1_ = _e36 * _e39;
    float _e43 = job.share;
    float _e48 = job.scale;
    float s0_ = (h0_ + (p0_ * _e43)) * _e48;
    float _e52 = job.share;
    float _e57 = job.scale;
    float s1_ = (h1_ + (p1_ * _e52)) * _e57;
    {
        hidden[at + (lid + 0u)] = s0_;
    }
    if ((lid + 128u) < 200u) {
        hidden[at + (lid + 128u)] = s1_;
    }
    float _e84 = sum(lid, (s0_ * s0_) + ((s1_ * s1_) * (((lid + 128u) < 200u) ? 1.0 : 0.0)), part, some);
    float _e89 = job.epsilon;
    float next_factor = metal::rsqrt((_e84 / 200.0) + _e89);
    uint _e96 = job.next;
    float _e101 = vectors[_e96 + (lid + 0u)];
    float next0_ = (s0_ * next_factor) * _e101;
    uint _e107 = job.next;
    float _e114 = vectors[_e107 + metal::min(lid + 128u, 199u)];
    float next1_ = (s1_ * next_factor) * _e114;
    {
        uint _e120 = job.stride;
        normed[(group.x * _e120) + (lid + 0u)] = next0_;
    }
    if ((lid + 128u) < 200u) {
        uint _e134 = job.stride;
        normed[(group.x * _e134) + (lid + 128u)] = next1_;
        return;
    } else {
        return;
    }
}
