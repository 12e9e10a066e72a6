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

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_2 const& parts [[user(fake0)]]
, device type_2& attended [[user(fake0)]]
, threadgroup type_3& head
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        head = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float largest = -1000000000000000000000000000000.0;
    uint p = 0u;
    float total = 0.0;
    uint p_1 = 0u;
    uint i = {};
    float s = {};
    uint p_2 = {};
    uint apart = 1u;
    uint i_1 = {};
    uint i_2 = {};
    uint i_3 = {};
    uint _e5 = job.heads;
    uint unit = (group.y * _e5) + group.x;
    uint _e11 = job.parts;
    uint at = (unit * _e11) * 130u;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e36 = p;
            p = _e36 + 1u;
        }
        loop_init = false;
        uint _e19 = p;
        uint _e22 = job.parts;
        if (_e19 < _e22) {
        } else {
            break;
        }
        {
            float _e24 = largest;
            uint _e26 = p;
            float _e33 = parts[(at + (_e26 * 130u)) + 128u];
            largest = metal::max(_e24, _e33);
        }
    }
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e68 = p_1;
            p_1 = _e68 + 1u;
        }
        loop_init_1 = false;
        uint _e42 = p_1;
        uint _e45 = job.parts;
        if (_e42 < _e45) {
        } else {
            break;
        }
        {
            uint _e47 = p_1;
            uint o = at + (_e47 * 130u);
            float _e51 = total;
            float _e56 = parts[o + 129u];
            float _e61 = parts[o + 128u];
            float _e62 = largest;
            total = _e51 + (_e56 * metal::exp(_e61 - _e62));
        }
    }
    i = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e112 = i;
            i = _e112 + 64u;
        }
        loop_init_2 = false;
        uint _e71 = i;
        if (_e71 < 128u) {
        } else {
            break;
        }
        {
            s = 0.0;
            p_2 = 0u;
            uint2 loop_bound_3 = uint2(4294967295u);
            bool loop_init_3 = true;
            while(true) {
                if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                if (!loop_init_3) {
                    uint _e104 = p_2;
                    p_2 = _e104 + 1u;
                }
                loop_init_3 = false;
                uint _e78 = p_2;
                uint _e81 = job.parts;
                if (_e78 < _e81) {
                } else {
                    break;
                }
                {
                    uint _e83 = p_2;
                    uint o_1 = at + (_e83 * 130u);
                    float _e87 = s;
                    uint _e89 = i;
                    float _e92 = parts[o_1 + _e89];
                    float _e97 = parts[o_1 + 128u];
                    float _e98 = largest;
                    s = _e87 + (_e92 * metal::exp(_e97 - _e98));
                }
            }
            uint _e107 = i;
            float _e109 = s;
            float _e110 = total;
            head.inner[_e107] = _e109 / _e110;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e149 = apart;
            apart = _e149 << 1u;
        }
        loop_init_4 = false;
        uint _e117 = apart;
        if (_e117 < 128u) {
        } else {
            break;
        }
        {
            i_1 = lid;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e146 = i_1;
                    i_1 = _e146 + 64u;
                }
                loop_init_5 = false;
                uint _e121 = i_1;
                if (_e121 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e124 = i_1;
                    uint _e125 = i_1;
                    uint _e126 = apart;
                    uint a = _e124 + (_e125 & ~((_e126 - 1u)));
                    uint _e132 = apart;
                    uint b = a + _e132;
                    float x = head.inner[a];
                    float y = head.inner[b];
                    head.inner[a] = x + y;
                    head.inner[b] = x - y;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    i_2 = lid;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e162 = i_2;
            i_2 = _e162 + 64u;
        }
        loop_init_6 = false;
        uint _e153 = i_2;
        if (_e153 < 128u) {
        } else {
            break;
        }
        {
            uint _e157 = i_2;
            float _e159 = head.inner[_e157];
            head.inner[_e157] = _e159 * 0.088388346;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    i_3 = lid;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e188 = i_3;
            i_3 = _e188 + 64u;
        }
        loop_init_7 = false;
        uint _e166 = i_3;
        if (_e166 < 128u) {
        } else {
            break;
        }
        {
            uint _e173 = job.stride;
            uint _e178 = job.head_stride;
            uint _e181 = i_3;
            uint _e185 = i_3;
            float _e187 = head.inner[_e185];
            attended[((group.y * _e173) + (group.x * _e178)) + _e181] = _e187;
        }
    }
    return;
}
