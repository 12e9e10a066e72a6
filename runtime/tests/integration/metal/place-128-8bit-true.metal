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
    uint i = {};
    float s = 0.0;
    uint i_1 = {};
    uint step = 32u;
    bool local_1 = {};
    uint i_2 = {};
    bool local_2 = {};
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
    uint _e10 = job.heads;
    bool is_q = group.x < _e10;
    if (!(is_q)) {
        uint _e18 = job.heads;
        uint _e21 = job.kv_heads;
        local = group.x < (_e18 + _e21);
    } else {
        local = false;
    }
    bool is_k = local;
    uint _e29 = job.heads;
    uint _e33 = job.kv_heads;
    uint _e38 = job.heads;
    uint kv = is_k ? (group.x - _e38) : ((group.x - _e29) - _e33);
    uint _e43 = job.heads;
    uint _e47 = job.kv_heads;
    uint begin = ((token * (_e43 + (2u * _e47))) + group.x) * 128u;
    i = lid;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e67 = i;
            i = _e67 + 64u;
        }
        loop_init_1 = false;
        uint _e56 = i;
        if (_e56 < 128u) {
        } else {
            break;
        }
        {
            uint _e60 = i;
            uint _e63 = i;
            float _e66 = qkv[begin + _e63];
            head.inner[_e60] = _e66;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    i_1 = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e87 = i_1;
            i_1 = _e87 + 64u;
        }
        loop_init_2 = false;
        uint _e73 = i_1;
        if (_e73 < 128u) {
        } else {
            break;
        }
        {
            float _e76 = s;
            uint _e78 = i_1;
            float _e80 = head.inner[_e78];
            uint _e82 = i_1;
            float _e84 = head.inner[_e82];
            s = _e76 + (_e80 * _e84);
        }
    }
    float _e92 = s;
    part.inner[lid] = _e92;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e109 = step;
            step = _e109 >> 1u;
        }
        loop_init_3 = false;
        uint _e95 = step;
        if (_e95 > 0u) {
        } else {
            break;
        }
        {
            uint _e98 = step;
            if (lid < _e98) {
                float _e102 = part.inner[lid];
                uint _e104 = step;
                float _e107 = part.inner[lid + _e104];
                part.inner[lid] = _e102 + _e107;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    if (!(is_q)) {
        local_1 = is_k;
    } else {
        local_1 = true;
    }
    bool _e116 = local_1;
    if (_e116) {
        float _e119 = part.inner[0];
        float _e124 = job.epsilon;
        float factor = metal::rsqrt((_e119 / 128.0) + _e124);
        uint _e129 = job.k_gain;
        uint _e132 = job.q_gain;
        uint gain = is_q ? _e132 : _e129;
        i_2 = lid;
        uint2 loop_bound_4 = uint2(4294967295u);
        bool loop_init_4 = true;
        while(true) {
            if (metal::all(loop_bound_4 == uint2(0u))) { break; }
            loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
            if (!loop_init_4) {
                uint _e152 = i_2;
                i_2 = _e152 + 64u;
            }
            loop_init_4 = false;
            uint _e135 = i_2;
            if (_e135 < 128u) {
            } else {
                break;
            }
            {
                uint _e139 = i_2;
                uint _e142 = i_2;
                float _e144 = head.inner[_e142];
                uint _e147 = i_2;
                float _e150 = vectors[gain + _e147];
                head.inner[_e139] = (_e144 * factor) * _e150;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (!(is_q)) {
        local_2 = is_k;
    } else {
        local_2 = true;
    }
    bool _e159 = local_2;
    if (_e159) {
        i_3 = lid;
        uint2 loop_bound_5 = uint2(4294967295u);
        bool loop_init_5 = true;
        while(true) {
            if (metal::all(loop_bound_5 == uint2(0u))) { break; }
            loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
            if (!loop_init_5) {
                uint _e203 = i_3;
                i_3 = _e203 + 64u;
            }
            loop_init_5 = false;
            uint _e161 = i_3;
            if (_e161 < 32u) {
            } else {
                break;
            }
            {
                uint _e167 = job.table;
                uint _e171 = i_3;
                metal::float2 turn = angles[(_e167 + (position * 32u)) + _e171];
                uint _e176 = i_3;
                float a = head.inner[_e176];
                uint _e180 = i_3;
                float b = head.inner[_e180 + 32u];
                uint _e186 = i_3;
                head.inner[_e186] = (a * turn.x) - (b * turn.y);
                uint _e194 = i_3;
                head.inner[_e194 + 32u] = (b * turn.x) + (a * turn.y);
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
            uint _e240 = apart;
            apart = _e240 << 1u;
        }
        loop_init_6 = false;
        uint _e208 = apart;
        if (_e208 < 128u) {
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
                    uint _e237 = i_4;
                    i_4 = _e237 + 64u;
                }
                loop_init_7 = false;
                uint _e212 = i_4;
                if (_e212 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e215 = i_4;
                    uint _e216 = i_4;
                    uint _e217 = apart;
                    uint a_1 = _e215 + (_e216 & ~((_e217 - 1u)));
                    uint _e223 = apart;
                    uint b_1 = a_1 + _e223;
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
            uint _e253 = i_5;
            i_5 = _e253 + 64u;
        }
        loop_init_8 = false;
        uint _e244 = i_5;
        if (_e244 < 128u) {
        } else {
            break;
        }
        {
            uint _e248 = i_5;
            float _e250 = head.inner[_e248];
            head.inner[_e248] = _e250 * 0.088388346;
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
                uint _e268 = i_6;
                i_6 = _e268 + 64u;
            }
            loop_init_9 = false;
            uint _e257 = i_6;
            if (_e257 < 128u) {
            } else {
                break;
            }
            {
                uint _e261 = i_6;
                uint _e265 = i_6;
                float _e267 = head.inner[_e265];
                qkv[begin + _e261] = _e267;
            }
        }
        return;
    } else {
        uint _e273 = job.context;
        uint row = (kv * _e273) + position;
        i_7 = lid;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e331 = i_7;
                i_7 = _e331 + 64u;
            }
            loop_init_10 = false;
            uint _e277 = i_7;
            if (_e277 < 32u) {
            } else {
                break;
            }
            {
                uint _e280 = i_7;
                float _e283 = most(naga_div(_e280, 8u), head);
                float largest = float2(as_type<half2>(as_type<uint>(half2(metal::float2(_e283, 0.0))))).x;
                float inverse = (largest == 0.0) ? 0.0 : (1.0 / largest);
                uint _e296 = i_7;
                uint at = 4u * _e296;
                float _e300 = head.inner[at];
                float _e305 = head.inner[at + 1u];
                float _e310 = head.inner[at + 2u];
                float _e315 = head.inner[at + 3u];
                uint word = metal::pack_float_to_snorm4x8(metal::float4(_e300, _e305, _e310, _e315) * inverse);
                if (is_k) {
                    uint _e322 = i_7;
                    keys[(row * 32u) + _e322] = word;
                } else {
                    uint _e328 = i_7;
                    values[(row * 32u) + _e328] = word;
                }
            }
        }
        uint _e336 = job.kv_heads;
        uint _e341 = job.context;
        uint at_1 = (((is_k ? 0u : _e336) * _e341) + row) * 2u;
        i_8 = lid;
        uint2 loop_bound_11 = uint2(4294967295u);
        bool loop_init_11 = true;
        while(true) {
            if (metal::all(loop_bound_11 == uint2(0u))) { break; }
            loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
            if (!loop_init_11) {
                uint _e366 = i_8;
                i_8 = _e366 + 64u;
            }
            loop_init_11 = false;
            uint _e347 = i_8;
            if (_e347 < 2u) {
            } else {
                break;
            }
            {
                uint _e351 = i_8;
                uint _e355 = i_8;
                float _e357 = most(2u * _e355, head);
                uint _e359 = i_8;
                float _e363 = most((2u * _e359) + 1u, head);
                scales[at_1 + _e351] = as_type<uint>(half2(metal::float2(_e357, _e363)));
            }
        }
        return;
    }
}
