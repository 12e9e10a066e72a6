// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

struct Job {
    uint heads;
    uint parts;
    uint stride;
    uint head_stride;
};
typedef float type_2[1];
struct type_3 {
    float inner[128];
};
struct type_5 {
    metal::float2 inner[128];
};

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_2 const& parts [[user(fake0)]]
, device type_2& attended [[user(fake0)]]
, threadgroup type_3& most
, threadgroup type_5& shares
, threadgroup type_3& head
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        most = {};
        shares = {};
        head = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float largest = -1000000000000000000000000000000.0;
    uint p = {};
    uint n = 64u;
    float total = 0.0;
    float s0_ = 0.0;
    uint first = 0u;
    uint p_1 = {};
    uint apart = 1u;
    uint i = {};
    uint i_1 = {};
    uint i_2 = {};
    uint _e5 = job.heads;
    uint unit = (group.y * _e5) + group.x;
    uint _e11 = job.parts;
    uint at = (unit * _e11) * 130u;
    uint _e18 = job.stride;
    uint _e23 = job.head_stride;
    uint to = (group.y * _e18) + (group.x * _e23);
    p = lid;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e45 = p;
            p = _e45 + 128u;
        }
        loop_init = false;
        uint _e29 = p;
        uint _e32 = job.parts;
        if (_e29 < _e32) {
        } else {
            break;
        }
        {
            float _e34 = largest;
            uint _e36 = p;
            float _e43 = parts[(at + (_e36 * 130u)) + 128u];
            largest = metal::max(_e34, _e43);
        }
    }
    float _e50 = largest;
    most.inner[lid] = _e50;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e69 = n;
            n = _e69 >> 1u;
        }
        loop_init_1 = false;
        uint _e53 = n;
        if (_e53 > 0u) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e56 = n;
            if (lid < _e56) {
                float _e62 = most.inner[lid];
                uint _e64 = n;
                float _e67 = most.inner[lid + _e64];
                most.inner[lid] = metal::max(_e62, _e67);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e74 = most.inner[0];
    largest = _e74;
    uint i0_ = 0u + lid;
    uint n0_ = metal::min(i0_, 127u);
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e153 = first;
            first = _e153 + 128u;
        }
        loop_init_2 = false;
        uint _e85 = first;
        uint _e88 = job.parts;
        if (_e85 < _e88) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e90 = first;
            uint _e94 = job.parts;
            if ((_e90 + lid) < _e94) {
                uint _e96 = first;
                uint o = at + ((_e96 + lid) * 130u);
                float _e105 = parts[o + 128u];
                float _e106 = largest;
                float factor = metal::exp(_e105 - _e106);
                float _e115 = parts[o + 129u];
                shares.inner[lid] = metal::float2(factor, factor * _e115);
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e121 = job.parts;
            uint _e122 = first;
            uint count = metal::min(128u, _e121 - _e122);
            p_1 = 0u;
            uint2 loop_bound_3 = uint2(4294967295u);
            bool loop_init_3 = true;
            while(true) {
                if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                if (!loop_init_3) {
                    uint _e151 = p_1;
                    p_1 = _e151 + 1u;
                }
                loop_init_3 = false;
                uint _e127 = p_1;
                if (_e127 < count) {
                } else {
                    break;
                }
                {
                    uint _e129 = first;
                    uint _e130 = p_1;
                    uint o_1 = at + ((_e129 + _e130) * 130u);
                    uint _e136 = p_1;
                    metal::float2 share = shares.inner[_e136];
                    float _e139 = total;
                    total = _e139 + share.y;
                    float _e142 = s0_;
                    float _e147 = parts[o_1 + n0_];
                    s0_ = _e142 + (share.x * _e147);
                }
            }
        }
    }
    if (i0_ < 128u) {
        float _e160 = s0_;
        float _e161 = total;
        head.inner[i0_] = _e160 / _e161;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e197 = apart;
            apart = _e197 << 1u;
        }
        loop_init_4 = false;
        uint _e165 = apart;
        if (_e165 < 128u) {
        } else {
            break;
        }
        {
            i = lid;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e194 = i;
                    i = _e194 + 128u;
                }
                loop_init_5 = false;
                uint _e169 = i;
                if (_e169 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e172 = i;
                    uint _e173 = i;
                    uint _e174 = apart;
                    uint a = _e172 + (_e173 & ~((_e174 - 1u)));
                    uint _e180 = apart;
                    uint b = a + _e180;
                    float x = head.inner[a];
                    float y = head.inner[b];
                    head.inner[a] = x + y;
                    head.inner[b] = x - y;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    i_1 = lid;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e210 = i_1;
            i_1 = _e210 + 128u;
        }
        loop_init_6 = false;
        uint _e201 = i_1;
        if (_e201 < 128u) {
        } else {
            break;
        }
        {
            uint _e205 = i_1;
            float _e207 = head.inner[_e205];
            head.inner[_e205] = _e207 * 0.088388346;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    i_2 = lid;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e225 = i_2;
            i_2 = _e225 + 128u;
        }
        loop_init_7 = false;
        uint _e214 = i_2;
        if (_e214 < 128u) {
        } else {
            break;
        }
        {
            uint _e218 = i_2;
            uint _e222 = i_2;
            float _e224 = head.inner[_e222];
            attended[to + _e218] = _e224;
        }
    }
    return;
}
