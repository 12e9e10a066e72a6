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
    uint q_gain;
    uint k_gain;
    float epsilon;
    uint table;
    uint row;
    uint k_at;
    uint v_at;
    uint first;
    float clip;
    float value_scale;
    float growth;
    uint growth_positions;
};
typedef float type_2[1];
typedef uint type_3[1];
typedef metal::float2 type_5[1];
struct type_6 {
    float inner[128];
};
struct type_7 {
    float inner[64];
};

float most(
    uint g,
    threadgroup type_6& head
) {
    uint bits = 0u;
    uint i_9 = {};
    i_9 = g * 32u;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e24 = i_9;
            i_9 = _e24 + 1u;
        }
        loop_init = false;
        uint _e6 = i_9;
        if (_e6 < metal::min((g + 1u) * 32u, 128u)) {
        } else {
            break;
        }
        {
            uint _e14 = bits;
            uint _e16 = i_9;
            float _e18 = head.inner[_e16];
            bits = metal::max(_e14, as_type<uint>(_e18) & 2147483647u);
        }
    }
    uint _e26 = bits;
    return as_type<float>(_e26);
}

float sum(
    uint lid_1,
    float value,
    threadgroup type_7& part
) {
    uint step = 32u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    part.inner[lid_1] = value;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e20 = step;
            step = _e20 >> 1u;
        }
        loop_init_1 = false;
        uint _e6 = step;
        if (_e6 > 0u) {
        } else {
            break;
        }
        {
            uint _e9 = step;
            if (lid_1 < _e9) {
                float _e13 = part.inner[lid_1];
                uint _e15 = step;
                float _e18 = part.inner[lid_1 + _e15];
                part.inner[lid_1] = _e13 + _e18;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    float _e25 = part.inner[0];
    return _e25;
}
uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_2& qkv [[user(fake0)]]
, device type_3& keys [[user(fake0)]]
, device type_3& values [[user(fake0)]]
, device type_2 const& vectors [[user(fake0)]]
, device type_5 const& angles [[user(fake0)]]
, device type_3& scales [[user(fake0)]]
, threadgroup type_6& head
, threadgroup type_7& part
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        head = {};
        part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool local = {};
    bool local_1 = {};
    uint i = {};
    float squares = 0.0;
    uint i_1 = {};
    bool local_2 = {};
    uint i_2 = {};
    bool local_3 = {};
    uint i_3 = {};
    uint apart = 1u;
    uint i_4 = {};
    uint i_5 = {};
    uint i_6 = {};
    uint i_7 = {};
    uint i_8 = {};
    uint token = group.y;
    uint _e5 = job.position;
    uint position = _e5 + token;
    uint _e10 = job.first;
    uint unit = group.x + _e10;
    uint _e14 = job.heads;
    bool is_q = unit < _e14;
    if (!(is_q)) {
        uint _e21 = job.heads;
        uint _e24 = job.kv_heads;
        local = unit < (_e21 + _e24);
    } else {
        local = false;
    }
    bool is_k = local;
    if (!(is_q)) {
        local_1 = !(is_k);
    } else {
        local_1 = false;
    }
    bool is_v = local_1;
    uint _e37 = job.heads;
    uint _e41 = job.kv_heads;
    uint _e45 = job.heads;
    uint kv = is_k ? (unit - _e45) : ((unit - _e37) - _e41);
    uint _e50 = job.row;
    uint _e54 = job.v_at;
    uint _e57 = job.k_at;
    uint begin = (token * _e50) + (is_q ? (unit * 128u) : ((is_k ? _e57 : _e54) + (kv * 128u)));
    i = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e78 = i;
            i = _e78 + 64u;
        }
        loop_init_2 = false;
        uint _e67 = i;
        if (_e67 < 128u) {
        } else {
            break;
        }
        {
            uint _e71 = i;
            uint _e74 = i;
            float _e77 = qkv[begin + _e74];
            head.inner[_e71] = _e77;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    {
        i_1 = lid;
        uint2 loop_bound_3 = uint2(4294967295u);
        bool loop_init_3 = true;
        while(true) {
            if (metal::all(loop_bound_3 == uint2(0u))) { break; }
            loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
            if (!loop_init_3) {
                uint _e96 = i_1;
                i_1 = _e96 + 64u;
            }
            loop_init_3 = false;
            uint _e85 = i_1;
            if (_e85 < 128u) {
            } else {
                break;
            }
            {
                uint _e89 = i_1;
                float _e91 = head.inner[_e89];
                float d = _e91 - 0.0;
                float _e93 = squares;
                squares = _e93 + (d * d);
            }
        }
        float _e99 = squares;
        float _e100 = sum(lid, _e99, part);
        float _e105 = job.epsilon;
        float factor = metal::rsqrt((_e100 / 128.0) + _e105);
        if (!(is_q)) {
            local_2 = is_k;
        } else {
            local_2 = true;
        }
        bool _e112 = local_2;
        if (_e112) {
            i_2 = lid;
            uint2 loop_bound_4 = uint2(4294967295u);
            bool loop_init_4 = true;
            while(true) {
                if (metal::all(loop_bound_4 == uint2(0u))) { break; }
                loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
                if (!loop_init_4) {
                    uint _e139 = i_2;
                    i_2 = _e139 + 64u;
                }
                loop_init_4 = false;
                uint _e114 = i_2;
                if (_e114 < 128u) {
                } else {
                    break;
                }
                {
                    uint _e118 = i_2;
                    uint _e121 = i_2;
                    float _e123 = head.inner[_e121];
                    uint _e129 = job.k_gain;
                    uint _e132 = job.q_gain;
                    uint _e134 = i_2;
                    float _e137 = vectors[(is_q ? _e132 : _e129) + _e134];
                    head.inner[_e118] = ((_e123 - 0.0) * factor) * _e137;
                }
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
    if (!(is_q)) {
        local_3 = is_k;
    } else {
        local_3 = true;
    }
    bool _e146 = local_3;
    if (_e146) {
        i_3 = lid;
        uint2 loop_bound_5 = uint2(4294967295u);
        bool loop_init_5 = true;
        while(true) {
            if (metal::all(loop_bound_5 == uint2(0u))) { break; }
            loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
            if (!loop_init_5) {
                uint _e190 = i_3;
                i_3 = _e190 + 64u;
            }
            loop_init_5 = false;
            uint _e148 = i_3;
            if (_e148 < 32u) {
            } else {
                break;
            }
            {
                uint _e154 = job.table;
                uint _e158 = i_3;
                metal::float2 turn = angles[(_e154 + (position * 32u)) + _e158];
                uint _e163 = i_3;
                float a = head.inner[_e163];
                uint _e167 = i_3;
                float b = head.inner[_e167 + 32u];
                uint _e173 = i_3;
                head.inner[_e173] = (a * turn.x) - (b * turn.y);
                uint _e181 = i_3;
                head.inner[_e181 + 32u] = (b * turn.x) + (a * turn.y);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e227 = apart;
            apart = _e227 << 1u;
        }
        loop_init_6 = false;
        uint _e195 = apart;
        if (_e195 < 128u) {
        } else {
            break;
        }
        {
            i_4 = lid;
            uint2 loop_bound_7 = uint2(4294967295u);
            bool loop_init_7 = true;
            while(true) {
                if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                if (!loop_init_7) {
                    uint _e224 = i_4;
                    i_4 = _e224 + 64u;
                }
                loop_init_7 = false;
                uint _e199 = i_4;
                if (_e199 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e202 = i_4;
                    uint _e203 = i_4;
                    uint _e204 = apart;
                    uint a_1 = _e202 + (_e203 & ~((_e204 - 1u)));
                    uint _e210 = apart;
                    uint b_1 = a_1 + _e210;
                    float x = head.inner[a_1];
                    float y = head.inner[b_1];
                    head.inner[a_1] = x + y;
                    head.inner[b_1] = x - y;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    i_5 = lid;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e240 = i_5;
            i_5 = _e240 + 64u;
        }
        loop_init_8 = false;
        uint _e231 = i_5;
        if (_e231 < 128u) {
        } else {
            break;
        }
        {
            uint _e235 = i_5;
            float _e237 = head.inner[_e235];
            head.inner[_e235] = _e237 * 0.088388346;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_q) {
        i_6 = lid;
        uint2 loop_bound_9 = uint2(4294967295u);
        bool loop_init_9 = true;
        while(true) {
            if (metal::all(loop_bound_9 == uint2(0u))) { break; }
            loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
            if (!loop_init_9) {
                uint _e255 = i_6;
                i_6 = _e255 + 64u;
            }
            loop_init_9 = false;
            uint _e244 = i_6;
            if (_e244 < 128u) {
            } else {
                break;
            }
            {
                uint _e248 = i_6;
                uint _e252 = i_6;
                float _e254 = head.inner[_e252];
                qkv[begin + _e248] = _e254;
            }
        }
        return;
    } else {
        uint _e260 = job.context;
        uint row = (kv * _e260) + position;
        i_7 = lid;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e318 = i_7;
                i_7 = _e318 + 64u;
            }
            loop_init_10 = false;
            uint _e264 = i_7;
            if (_e264 < 32u) {
            } else {
                break;
            }
            {
                uint _e267 = i_7;
                float _e270 = most(naga_div(_e267, 8u), head);
                float largest = float2(as_type<half2>(as_type<uint>(half2(metal::float2(_e270, 0.0))))).x;
                float inverse = (largest == 0.0) ? 0.0 : (1.0 / largest);
                uint _e283 = i_7;
                uint at = 4u * _e283;
                float _e287 = head.inner[at];
                float _e292 = head.inner[at + 1u];
                float _e297 = head.inner[at + 2u];
                float _e302 = head.inner[at + 3u];
                uint word = metal::pack_float_to_snorm4x8(metal::float4(_e287, _e292, _e297, _e302) * inverse);
                if (is_k) {
                    uint _e309 = i_7;
                    keys[(row * 32u) + _e309] = word;
                } else {
                    uint _e315 = i_7;
                    values[(row * 32u) + _e315] = word;
                }
            }
        }
        uint _e323 = job.kv_heads;
        uint _e326 = job.context;
        uint at_1 = (is_k ? 0u : ((_e323 * _e326) * 2u)) + (row * 2u);
        i_8 = lid;
        uint2 loop_bound_11 = uint2(4294967295u);
        bool loop_init_11 = true;
        while(true) {
            if (metal::all(loop_bound_11 == uint2(0u))) { break; }
            loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
            if (!loop_init_11) {
                uint _e355 = i_8;
                i_8 = _e355 + 64u;
            }
            loop_init_11 = false;
            uint _e336 = i_8;
            if (_e336 < 2u) {
            } else {
                break;
            }
            {
                uint _e340 = i_8;
                uint _e344 = i_8;
                float _e346 = most(2u * _e344, head);
                uint _e348 = i_8;
                float _e352 = most((2u * _e348) + 1u, head);
                scales[at_1 + _e340] = as_type<uint>(half2(metal::float2(_e346, _e352)));
            }
        }
        return;
    }
}
