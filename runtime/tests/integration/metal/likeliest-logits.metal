// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

struct Job {
    uint count;
    uint begin;
    uint to;
};
typedef uint type_1[1];
typedef metal::uint2 type_3[1];
struct type_4 {
    metal::uint2 inner[2048];
};

uint key(
    uint bits
) {
    bool local = {};
    if (!(((bits & 2147483647u) > 2139095040u))) {
        local = bits == 4286578688u;
    } else {
        local = true;
    }
    bool _e11 = local;
    if (_e11) {
        return 0u;
    }
    if (bits > 2147483648u) {
        return ~(bits);
    }
    return metal::min(bits & 2147483647u, 2139095039u) | 2147483648u;
}

bool better(
    metal::uint2 a,
    metal::uint2 b
) {
    bool local_1 = {};
    bool local_2 = {};
    if (!((a.x > b.x))) {
        if (a.x == b.x) {
            local_2 = a.y < b.y;
        } else {
            local_2 = false;
        }
        bool _e17 = local_2;
        local_1 = _e17;
    } else {
        local_1 = true;
    }
    bool _e19 = local_1;
    return _e19;
}

float logit(
    uint key_1
) {
    return as_type<float>((key_1 >= 2147483648u) ? (key_1 & 2147483647u) : ~(key_1));
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint lid [[thread_index_in_threadgroup]]
, constant Job& job [[user(fake0)]]
, device type_1 const& logits [[user(fake0)]]
, device type_3& entries [[user(fake0)]]
, threadgroup type_4& slice
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        slice = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint i = {};
    metal::uint2 entry = {};
    uint size = 2u;
    uint apart = {};
    uint i_1 = {};
    uint i_2 = {};
    float sum = 0.0;
    uint i_3 = {};
    uint step = 128u;
    uint first = group.x * 2048u;
    i = lid;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e28 = i;
            i = _e28 + 256u;
        }
        loop_init = false;
        uint _e6 = i;
        if (_e6 < 2048u) {
        } else {
            break;
        }
        {
            uint _e9 = i;
            uint at = first + _e9;
            entry = metal::uint2(0u, 4294967295u);
            uint _e17 = job.count;
            if (at < _e17) {
                uint _e21 = logits[at];
                uint _e22 = key(_e21);
                entry = metal::uint2(_e22, at);
            }
            uint _e25 = i;
            metal::uint2 _e27 = entry;
            slice.inner[_e25] = _e27;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e79 = size;
            size = _e79 << 1u;
        }
        loop_init_1 = false;
        uint _e33 = size;
        if (_e33 <= 2048u) {
        } else {
            break;
        }
        {
            uint _e36 = size;
            apart = _e36 >> 1u;
            uint2 loop_bound_2 = uint2(4294967295u);
            bool loop_init_2 = true;
            while(true) {
                if (metal::all(loop_bound_2 == uint2(0u))) { break; }
                loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
                if (!loop_init_2) {
                    uint _e76 = apart;
                    apart = _e76 >> 1u;
                }
                loop_init_2 = false;
                uint _e40 = apart;
                if (_e40 > 0u) {
                } else {
                    break;
                }
                {
                    i_1 = lid;
                    uint2 loop_bound_3 = uint2(4294967295u);
                    bool loop_init_3 = true;
                    while(true) {
                        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                        if (!loop_init_3) {
                            uint _e73 = i_1;
                            i_1 = _e73 + 256u;
                        }
                        loop_init_3 = false;
                        uint _e44 = i_1;
                        if (_e44 < 1024u) {
                        } else {
                            break;
                        }
                        {
                            uint _e47 = i_1;
                            uint _e48 = i_1;
                            uint _e49 = apart;
                            uint a_1 = _e47 + (_e48 & ~((_e49 - 1u)));
                            uint _e55 = apart;
                            uint b_1 = a_1 + _e55;
                            metal::uint2 x = slice.inner[a_1];
                            metal::uint2 y = slice.inner[b_1];
                            bool _e63 = better(y, x);
                            uint _e64 = size;
                            if (_e63 == ((a_1 & _e64) == 0u)) {
                                slice.inner[a_1] = y;
                                slice.inner[b_1] = x;
                            }
                        }
                    }
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                }
            }
        }
    }
    i_2 = lid;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e101 = i_2;
            i_2 = _e101 + 256u;
        }
        loop_init_4 = false;
        uint _e83 = i_2;
        if (_e83 < 256u) {
        } else {
            break;
        }
        {
            uint _e89 = job.to;
            uint _e94 = i_2;
            uint _e98 = i_2;
            metal::uint2 _e100 = slice.inner[_e98];
            entries[(_e89 + (group.x * 256u)) + _e94] = _e100;
        }
    }
    uint best = slice.inner[0].x;
    i_3 = lid;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e127 = i_3;
            i_3 = _e127 + 256u;
        }
        loop_init_5 = false;
        uint _e111 = i_3;
        if (_e111 < 2048u) {
        } else {
            break;
        }
        {
            uint _e115 = i_3;
            uint one = slice.inner[_e115].x;
            if (one > 0u) {
                float _e121 = sum;
                float _e122 = logit(one);
                float _e123 = logit(best);
                sum = _e121 + metal::exp(_e122 - _e123);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e133 = sum;
    slice.inner[lid].y = as_type<uint>(_e133);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e159 = step;
            step = _e159 >> 1u;
        }
        loop_init_6 = false;
        uint _e137 = step;
        if (_e137 > 0u) {
        } else {
            break;
        }
        {
            uint _e140 = step;
            if (lid < _e140) {
                uint _e148 = slice.inner[lid].y;
                uint _e151 = step;
                uint _e155 = slice.inner[lid + _e151].y;
                slice.inner[lid].y = as_type<uint>(as_type<float>(_e148) + as_type<float>(_e155));
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    if (lid == 0u) {
        uint _e170 = slice.inner[0].y;
        entries[group.x] = metal::uint2(best, _e170);
        return;
    } else {
        return;
    }
}
