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
    float inner[512];
};
struct type_7 {
    float inner[16];
};
constant float shift = 4.0;
constant type_7 levels = type_7 {{-127.0, -102.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 52.0, 67.0, 86.0, 113.0}};

float error_function(
    float x
) {
    float a = metal::abs(x);
    float t_2 = 1.0 / (1.0 + (0.3275911 * a));
    float p = t_2 * (0.2548296 + (t_2 * (-0.28449672 + (t_2 * (1.4214138 + (t_2 * (-1.4531521 + (t_2 * 1.0614054))))))));
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
, threadgroup type_6& part
, threadgroup type_7& table
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        part = {};
        table = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint i = {};
    float sum0_0_ = 0.0;
    float sum1_0_ = 0.0;
    uint b = {};
    float d0_0_ = {};
    float d1_0_ = {};
    metal::float4 all0_ = {};
    uint o = {};
    float t = {};
    uint k = {};
    float u = {};
    float t_1 = {};
    uint k_1 = {};
    uint row = lid & 15u;
    uint slice = lid >> 4u;
    uint first = (group.x + (group.y * 32768u)) * 1u;
    uint y_first = job.y_first;
    uint x_first = job.x_first;
    i = lid;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e30 = i;
            i = _e30 + 256u;
        }
        loop_init = false;
        uint _e21 = i;
        if (_e21 < 16u) {
        } else {
            break;
        }
        {
            uint _e25 = i;
            uint _e28 = i;
            table.inner[_e25] = levels.inner[_e28];
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e35 = job.at;
    uint _e41 = job.rows;
    uint _e50 = job.superblocks;
    uint panel0_ = (0u + _e35) + (metal::min(first + 0u, (_e41 - 1u) >> 4u) * (8u + (_e50 * 68u)));
    uint _e61 = w[panel0_ + (row >> 1u)];
    float head0_ = float2(as_type<half2>((_e61 >> ((row & 1u) << 4u)))).x;
    uint _e73 = job.second;
    uint _e79 = job.rows;
    uint _e88 = job.superblocks;
    uint panel1_ = (0u + _e73) + (metal::min(first + 0u, (_e79 - 1u) >> 4u) * (8u + (_e88 * 68u)));
    uint _e99 = w[panel1_ + (row >> 1u)];
    float head1_ = float2(as_type<half2>((_e99 >> ((row & 1u) << 4u)))).x;
    b = slice;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e903 = b;
            b = _e903 + 16u;
        }
        loop_init_1 = false;
        uint _e110 = b;
        uint _e113 = job.superblocks;
        if (_e110 < _e113) {
        } else {
            break;
        }
        {
            uint _e117 = b;
            uint at0_ = (panel0_ + 8u) + (_e117 * 68u);
            uint _e126 = w[at0_ + (row >> 2u)];
            int g0_ = as_type<int>(_e126 << (24u - ((row & 3u) << 3u))) >> 24u;
            float a0_ = (head0_ * 0.00024414063) * static_cast<float>(g0_ >> 1u);
            float t0_ = static_cast<float>(g0_ & 1) * shift;
            float c0_ = a0_ * t0_;
            d0_0_ = 0.0;
            uint _e153 = b;
            uint at1_ = (panel1_ + 8u) + (_e153 * 68u);
            uint _e162 = w[at1_ + (row >> 2u)];
            int g1_ = as_type<int>(_e162 << (24u - ((row & 3u) << 3u))) >> 24u;
            float a1_ = (head1_ * 0.00024414063) * static_cast<float>(g1_ >> 1u);
            float t1_ = static_cast<float>(g1_ & 1) * shift;
            float c1_ = a1_ * t1_;
            d1_0_ = 0.0;
            all0_ = metal::float4 {};
            {
                uint v0_0_ = w[(at0_ + 4u) + row];
                uint v0_1_ = w[(at0_ + 20u) + row];
                uint v0_2_ = w[(at0_ + 36u) + row];
                uint v0_3_ = w[(at0_ + 52u) + row];
                uint v1_0_ = w[(at1_ + 4u) + row];
                uint v1_1_ = w[(at1_ + 20u) + row];
                uint v1_2_ = w[(at1_ + 36u) + row];
                uint v1_3_ = w[(at1_ + 52u) + row];
                uint _e238 = b;
                uint _e247 = job.x_stride;
                metal::float4 x0_0_ = x_1[((x_first + (_e238 * 8u)) + 0u) + (0u * _e247)];
                metal::float4 _e252 = all0_;
                all0_ = _e252 + x0_0_;
                uint _e255 = b;
                uint _e264 = job.x_stride;
                metal::float4 x0_1_ = x_1[((x_first + (_e255 * 8u)) + 1u) + (0u * _e264)];
                metal::float4 _e269 = all0_;
                all0_ = _e269 + x0_1_;
                uint _e272 = b;
                uint _e281 = job.x_stride;
                metal::float4 x0_2_ = x_1[((x_first + (_e272 * 8u)) + 2u) + (0u * _e281)];
                metal::float4 _e286 = all0_;
                all0_ = _e286 + x0_2_;
                uint _e289 = b;
                uint _e298 = job.x_stride;
                metal::float4 x0_3_ = x_1[((x_first + (_e289 * 8u)) + 3u) + (0u * _e298)];
                metal::float4 _e303 = all0_;
                all0_ = _e303 + x0_3_;
                uint _e306 = b;
                uint _e315 = job.x_stride;
                metal::float4 x0_4_ = x_1[((x_first + (_e306 * 8u)) + 4u) + (0u * _e315)];
                metal::float4 _e320 = all0_;
                all0_ = _e320 + x0_4_;
                uint _e323 = b;
                uint _e332 = job.x_stride;
                metal::float4 x0_5_ = x_1[((x_first + (_e323 * 8u)) + 5u) + (0u * _e332)];
                metal::float4 _e337 = all0_;
                all0_ = _e337 + x0_5_;
                uint _e340 = b;
                uint _e349 = job.x_stride;
                metal::float4 x0_6_ = x_1[((x_first + (_e340 * 8u)) + 6u) + (0u * _e349)];
                metal::float4 _e354 = all0_;
                all0_ = _e354 + x0_6_;
                uint _e357 = b;
                uint _e366 = job.x_stride;
                metal::float4 x0_7_ = x_1[((x_first + (_e357 * 8u)) + 7u) + (0u * _e366)];
                metal::float4 _e371 = all0_;
                all0_ = _e371 + x0_7_;
                float _e377 = table.inner[v0_0_ & 15u];
                float _e384 = table.inner[(v0_0_ >> 8u) & 15u];
                float _e391 = table.inner[(v0_0_ >> 16u) & 15u];
                float _e398 = table.inner[(v0_0_ >> 24u) & 15u];
                metal::float4 f0_0_ = metal::float4(_e377, _e384, _e391, _e398);
                float _e400 = d0_0_;
                d0_0_ = _e400 + metal::dot(x0_0_, f0_0_);
                float _e407 = table.inner[v0_1_ & 15u];
                float _e414 = table.inner[(v0_1_ >> 8u) & 15u];
                float _e421 = table.inner[(v0_1_ >> 16u) & 15u];
                float _e428 = table.inner[(v0_1_ >> 24u) & 15u];
                metal::float4 f0_1_ = metal::float4(_e407, _e414, _e421, _e428);
                float _e430 = d0_0_;
                d0_0_ = _e430 + metal::dot(x0_1_, f0_1_);
                float _e437 = table.inner[v0_2_ & 15u];
                float _e444 = table.inner[(v0_2_ >> 8u) & 15u];
                float _e451 = table.inner[(v0_2_ >> 16u) & 15u];
                float _e458 = table.inner[(v0_2_ >> 24u) & 15u];
                metal::float4 f0_2_ = metal::float4(_e437, _e444, _e451, _e458);
                float _e460 = d0_0_;
                d0_0_ = _e460 + metal::dot(x0_2_, f0_2_);
                float _e467 = table.inner[v0_3_ & 15u];
                float _e474 = table.inner[(v0_3_ >> 8u) & 15u];
                float _e481 = table.inner[(v0_3_ >> 16u) & 15u];
                float _e488 = table.inner[(v0_3_ >> 24u) & 15u];
                metal::float4 f0_3_ = metal::float4(_e467, _e474, _e481, _e488);
                float _e490 = d0_0_;
                d0_0_ = _e490 + metal::dot(x0_3_, f0_3_);
                float _e499 = table.inner[(v0_0_ >> 4u) & 15u];
                float _e506 = table.inner[(v0_0_ >> 12u) & 15u];
                float _e513 = table.inner[(v0_0_ >> 20u) & 15u];
                float _e520 = table.inner[(v0_0_ >> 28u) & 15u];
                metal::float4 f0_4_ = metal::float4(_e499, _e506, _e513, _e520);
                float _e522 = d0_0_;
                d0_0_ = _e522 + metal::dot(x0_4_, f0_4_);
                float _e531 = table.inner[(v0_1_ >> 4u) & 15u];
                float _e538 = table.inner[(v0_1_ >> 12u) & 15u];
                float _e545 = table.inner[(v0_1_ >> 20u) & 15u];
                float _e552 = table.inner[(v0_1_ >> 28u) & 15u];
                metal::float4 f0_5_ = metal::float4(_e531, _e538, _e545, _e552);
                float _e554 = d0_0_;
                d0_0_ = _e554 + metal::dot(x0_5_, f0_5_);
                float _e563 = table.inner[(v0_2_ >> 4u) & 15u];
                float _e570 = table.inner[(v0_2_ >> 12u) & 15u];
                float _e577 = table.inner[(v0_2_ >> 20u) & 15u];
                float _e584 = table.inner[(v0_2_ >> 28u) & 15u];
                metal::float4 f0_6_ = metal::float4(_e563, _e570, _e577, _e584);
                float _e586 = d0_0_;
                d0_0_ = _e586 + metal::dot(x0_6_, f0_6_);
                float _e595 = table.inner[(v0_3_ >> 4u) & 15u];
                float _e602 = table.inner[(v0_3_ >> 12u) & 15u];
                float _e609 = table.inner[(v0_3_ >> 20u) & 15u];
                float _e616 = table.inner[(v0_3_ >> 28u) & 15u];
                metal::float4 f0_7_ = metal::float4(_e595, _e602, _e609, _e616);
                float _e618 = d0_0_;
                d0_0_ = _e618 + metal::dot(x0_7_, f0_7_);
                float _e625 = table.inner[v1_0_ & 15u];
                float _e632 = table.inner[(v1_0_ >> 8u) & 15u];
                float _e639 = table.inner[(v1_0_ >> 16u) & 15u];
                float _e646 = table.inner[(v1_0_ >> 24u) & 15u];
                metal::float4 f1_0_ = metal::float4(_e625, _e632, _e639, _e646);
                float _e648 = d1_0_;
                d1_0_ = _e648 + metal::dot(x0_0_, f1_0_);
                float _e655 = table.inner[v1_1_ & 15u];
                float _e662 = table.inner[(v1_1_ >> 8u) & 15u];
                float _e669 = table.inner[(v1_1_ >> 16u) & 15u];
                float _e676 = table.inner[(v1_1_ >> 24u) & 15u];
                metal::float4 f1_1_ = metal::float4(_e655, _e662, _e669, _e676);
                float _e678 = d1_0_;
                d1_0_ = _e678 + metal::dot(x0_1_, f1_1_);
                float _e685 = table.inner[v1_2_ & 15u];
                float _e692 = table.inner[(v1_2_ >> 8u) & 15u];
                float _e699 = table.inner[(v1_2_ >> 16u) & 15u];
                float _e706 = table.inner[(v1_2_ >> 24u) & 15u];
                metal::float4 f1_2_ = metal::float4(_e685, _e692, _e699, _e706);
                float _e708 = d1_0_;
                d1_0_ = _e708 + metal::dot(x0_2_, f1_2_);
                float _e715 = table.inner[v1_3_ & 15u];
                float _e722 = table.inner[(v1_3_ >> 8u) & 15u];
                float _e729 = table.inner[(v1_3_ >> 16u) & 15u];
                float _e736 = table.inner[(v1_3_ >> 24u) & 15u];
                metal::float4 f1_3_ = metal::float4(_e715, _e722, _e729, _e736);
                float _e738 = d1_0_;
                d1_0_ = _e738 + metal::dot(x0_3_, f1_3_);
                float _e747 = table.inner[(v1_0_ >> 4u) & 15u];
                float _e754 = table.inner[(v1_0_ >> 12u) & 15u];
                float _e761 = table.inner[(v1_0_ >> 20u) & 15u];
                float _e768 = table.inner[(v1_0_ >> 28u) & 15u];
                metal::float4 f1_4_ = metal::float4(_e747, _e754, _e761, _e768);
                float _e770 = d1_0_;
                d1_0_ = _e770 + metal::dot(x0_4_, f1_4_);
                float _e779 = table.inner[(v1_1_ >> 4u) & 15u];
                float _e786 = table.inner[(v1_1_ >> 12u) & 15u];
                float _e793 = table.inner[(v1_1_ >> 20u) & 15u];
                float _e800 = table.inner[(v1_1_ >> 28u) & 15u];
                metal::float4 f1_5_ = metal::float4(_e779, _e786, _e793, _e800);
                float _e802 = d1_0_;
                d1_0_ = _e802 + metal::dot(x0_5_, f1_5_);
                float _e811 = table.inner[(v1_2_ >> 4u) & 15u];
                float _e818 = table.inner[(v1_2_ >> 12u) & 15u];
                float _e825 = table.inner[(v1_2_ >> 20u) & 15u];
                float _e832 = table.inner[(v1_2_ >> 28u) & 15u];
                metal::float4 f1_6_ = metal::float4(_e811, _e818, _e825, _e832);
                float _e834 = d1_0_;
                d1_0_ = _e834 + metal::dot(x0_6_, f1_6_);
                float _e843 = table.inner[(v1_3_ >> 4u) & 15u];
                float _e850 = table.inner[(v1_3_ >> 12u) & 15u];
                float _e857 = table.inner[(v1_3_ >> 20u) & 15u];
                float _e864 = table.inner[(v1_3_ >> 28u) & 15u];
                metal::float4 f1_7_ = metal::float4(_e843, _e850, _e857, _e864);
                float _e866 = d1_0_;
                d1_0_ = _e866 + metal::dot(x0_7_, f1_7_);
            }
            float _e869 = sum0_0_;
            float _e870 = d0_0_;
            float _e873 = all0_.x;
            float _e875 = all0_.y;
            float _e878 = all0_.z;
            float _e881 = all0_.w;
            sum0_0_ = _e869 + ((a0_ * _e870) + (c0_ * (((_e873 + _e875) + _e878) + _e881)));
            float _e886 = sum1_0_;
            float _e887 = d1_0_;
            float _e890 = all0_.x;
            float _e892 = all0_.y;
            float _e895 = all0_.z;
            float _e898 = all0_.w;
            sum1_0_ = _e886 + ((a1_ * _e887) + (c1_ * (((_e890 + _e892) + _e895) + _e898)));
        }
    }
    float _e910 = sum0_0_;
    part.inner[0u + lid] = _e910;
    float _e915 = sum1_0_;
    part.inner[256u + lid] = _e915;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    o = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e1014 = o;
            o = _e1014 + 256u;
        }
        loop_init_2 = false;
        uint _e917 = o;
        if (_e917 < 16u) {
        } else {
            break;
        }
        {
            uint _e920 = o;
            uint r = _e920 & 15u;
            uint _e923 = o;
            uint token = naga_mod(_e923 >> 4u, 1u);
            uint _e928 = o;
            uint p_1 = naga_div(_e928 >> 4u, 1u);
            uint output = ((first + p_1) * 16u) + r;
            uint _e939 = job.rows;
            if (output < _e939) {
                t = 0.0;
                k = 0u;
                uint2 loop_bound_3 = uint2(4294967295u);
                bool loop_init_3 = true;
                while(true) {
                    if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                    loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                    if (!loop_init_3) {
                        uint _e964 = k;
                        k = _e964 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e945 = k;
                    if (_e945 < 16u) {
                    } else {
                        break;
                    }
                    {
                        float _e948 = t;
                        uint _e955 = k;
                        float _e961 = part.inner[((((p_1 * 1u) + token) * 256u) + (_e955 * 16u)) + r];
                        t = _e948 + _e961;
                    }
                }
                u = 0.0;
                {
                    t_1 = 0.0;
                    k_1 = 0u;
                    uint2 loop_bound_4 = uint2(4294967295u);
                    bool loop_init_4 = true;
                    while(true) {
                        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
                        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
                        if (!loop_init_4) {
                            uint _e993 = k_1;
                            k_1 = _e993 + 1u;
                        }
                        loop_init_4 = false;
                        uint _e972 = k_1;
                        if (_e972 < 16u) {
                        } else {
                            break;
                        }
                        {
                            float _e975 = t_1;
                            uint _e984 = k_1;
                            float _e990 = part.inner[(((((p_1 + 1u) * 1u) + token) * 256u) + (_e984 * 16u)) + r];
                            t_1 = _e975 + _e990;
                        }
                    }
                    float _e995 = t_1;
                    u = _e995;
                }
                float _e996 = t;
                float _e997 = t;
                float _e1003 = u;
                t = (_e996 / (1.0 + metal::exp(-(_e997)))) * _e1003;
                uint _e1008 = job.y_stride;
                float _e1013 = t;
                y[(y_first + (token * _e1008)) + output] = _e1013;
            }
        }
    }
    return;
}
