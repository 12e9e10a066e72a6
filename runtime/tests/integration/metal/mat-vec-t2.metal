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
struct type_7 {
    float inner[32];
};
constant float shift = 0.0;
constant type_7 levels = type_7 {{-14.0, 27.0, 9.0, -59.0, -24.0, -4.0, 35.0, 26.0, 25.0, -39.0, -33.0, -17.0, -65.0, 57.0, -7.0, 13.0, 53.0, -33.0, 18.0, -10.0, -56.0, 3.0, 40.0, -25.0, -5.0, 15.0, 56.0, -36.0, 12.0, 12.0, -48.0, 70.0}};

float error_function(
    float x
) {
    float a = metal::abs(x);
    float t_1 = 1.0 / (1.0 + (0.3275911 * a));
    float p = t_1 * (0.2548296 + (t_1 * (-0.28449672 + (t_1 * (1.4214138 + (t_1 * (-1.4531521 + (t_1 * 1.0614054))))))));
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
, device type_5 const& vectors [[user(fake0)]]
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
    uint b = {};
    float d0_0_ = {};
    metal::float4 all0_ = {};
    uint before0_ = {};
    uint o = {};
    float t = {};
    uint k = {};
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
        if (_e21 < 32u) {
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
    uint panel0_ = (0u + _e35) + (metal::min(first + 0u, (_e41 - 1u) >> 4u) * (8u + (_e50 * 32u)));
    uint _e61 = w[panel0_ + (row >> 1u)];
    float head0_ = float2(as_type<half2>((_e61 >> ((row & 1u) << 4u)))).x;
    b = slice;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e915 = b;
            b = _e915 + 16u;
        }
        loop_init_1 = false;
        uint _e72 = b;
        uint _e75 = job.superblocks;
        if (_e72 < _e75) {
        } else {
            break;
        }
        {
            uint _e79 = b;
            uint at0_ = (panel0_ + 8u) + (_e79 * 32u);
            float a0_ = head0_ * 0.0078125;
            d0_0_ = 0.0;
            all0_ = metal::float4 {};
            {
                uint v0_0_ = w[(at0_ + 0u) + row];
                uint v0_1_ = w[(at0_ + 16u) + row];
                before0_ = 0u;
                uint _e104 = b;
                if (_e104 > 0u) {
                    uint _e114 = w[((at0_ + 16u) + row) - 32u];
                    before0_ = _e114 >> 24u;
                }
                uint _e117 = before0_;
                uint z0_0_ = (_e117 | (((v0_0_ >> 0u) & 255u) << 8u)) | (((v0_1_ >> 0u) & 255u) << 16u);
                uint z0_1_ = (((v0_1_ >> 0u) & 255u) | (((v0_0_ >> 8u) & 255u) << 8u)) | (((v0_1_ >> 8u) & 255u) << 16u);
                uint z0_2_ = (((v0_1_ >> 8u) & 255u) | (((v0_0_ >> 16u) & 255u) << 8u)) | (((v0_1_ >> 16u) & 255u) << 16u);
                uint z0_3_ = (((v0_1_ >> 16u) & 255u) | (((v0_0_ >> 24u) & 255u) << 8u)) | (((v0_1_ >> 24u) & 255u) << 16u);
                uint _e187 = b;
                uint _e196 = job.x_stride;
                metal::float4 x0_0_ = x_1[((x_first + (_e187 * 8u)) + 0u) + (0u * _e196)];
                metal::float4 _e201 = all0_;
                all0_ = _e201 + x0_0_;
                uint _e204 = b;
                uint _e213 = job.x_stride;
                metal::float4 x0_1_ = x_1[((x_first + (_e204 * 8u)) + 1u) + (0u * _e213)];
                metal::float4 _e218 = all0_;
                all0_ = _e218 + x0_1_;
                uint _e221 = b;
                uint _e230 = job.x_stride;
                metal::float4 x0_2_ = x_1[((x_first + (_e221 * 8u)) + 2u) + (0u * _e230)];
                metal::float4 _e235 = all0_;
                all0_ = _e235 + x0_2_;
                uint _e238 = b;
                uint _e247 = job.x_stride;
                metal::float4 x0_3_ = x_1[((x_first + (_e238 * 8u)) + 3u) + (0u * _e247)];
                metal::float4 _e252 = all0_;
                all0_ = _e252 + x0_3_;
                uint _e255 = b;
                uint _e264 = job.x_stride;
                metal::float4 x0_4_ = x_1[((x_first + (_e255 * 8u)) + 4u) + (0u * _e264)];
                metal::float4 _e269 = all0_;
                all0_ = _e269 + x0_4_;
                uint _e272 = b;
                uint _e281 = job.x_stride;
                metal::float4 x0_5_ = x_1[((x_first + (_e272 * 8u)) + 5u) + (0u * _e281)];
                metal::float4 _e286 = all0_;
                all0_ = _e286 + x0_5_;
                uint _e289 = b;
                uint _e298 = job.x_stride;
                metal::float4 x0_6_ = x_1[((x_first + (_e289 * 8u)) + 6u) + (0u * _e298)];
                metal::float4 _e303 = all0_;
                all0_ = _e303 + x0_6_;
                uint _e306 = b;
                uint _e315 = job.x_stride;
                metal::float4 x0_7_ = x_1[((x_first + (_e306 * 8u)) + 7u) + (0u * _e315)];
                metal::float4 _e320 = all0_;
                all0_ = _e320 + x0_7_;
                float _e328 = table.inner[(z0_0_ >> 6u) & 15u];
                float _e337 = table.inner[16u + ((z0_0_ >> 2u) & 15u)];
                float _e345 = table.inner[(z0_1_ >> 6u) & 15u];
                float _e354 = table.inner[16u + ((z0_1_ >> 2u) & 15u)];
                float _e362 = table.inner[(z0_2_ >> 6u) & 15u];
                float _e371 = table.inner[16u + ((z0_2_ >> 2u) & 15u)];
                float _e379 = table.inner[(z0_3_ >> 6u) & 15u];
                float _e388 = table.inner[16u + ((z0_3_ >> 2u) & 15u)];
                metal::float4 f0_0_ = metal::float4(_e328 + _e337, _e345 + _e354, _e362 + _e371, _e379 + _e388);
                float _e391 = d0_0_;
                d0_0_ = _e391 + metal::dot(x0_0_, f0_0_);
                float _e400 = table.inner[(z0_0_ >> 8u) & 15u];
                float _e409 = table.inner[16u + ((z0_0_ >> 4u) & 15u)];
                float _e417 = table.inner[(z0_1_ >> 8u) & 15u];
                float _e426 = table.inner[16u + ((z0_1_ >> 4u) & 15u)];
                float _e434 = table.inner[(z0_2_ >> 8u) & 15u];
                float _e443 = table.inner[16u + ((z0_2_ >> 4u) & 15u)];
                float _e451 = table.inner[(z0_3_ >> 8u) & 15u];
                float _e460 = table.inner[16u + ((z0_3_ >> 4u) & 15u)];
                metal::float4 f0_1_ = metal::float4(_e400 + _e409, _e417 + _e426, _e434 + _e443, _e451 + _e460);
                float _e463 = d0_0_;
                d0_0_ = _e463 + metal::dot(x0_1_, f0_1_);
                float _e472 = table.inner[(z0_0_ >> 10u) & 15u];
                float _e481 = table.inner[16u + ((z0_0_ >> 6u) & 15u)];
                float _e489 = table.inner[(z0_1_ >> 10u) & 15u];
                float _e498 = table.inner[16u + ((z0_1_ >> 6u) & 15u)];
                float _e506 = table.inner[(z0_2_ >> 10u) & 15u];
                float _e515 = table.inner[16u + ((z0_2_ >> 6u) & 15u)];
                float _e523 = table.inner[(z0_3_ >> 10u) & 15u];
                float _e532 = table.inner[16u + ((z0_3_ >> 6u) & 15u)];
                metal::float4 f0_2_ = metal::float4(_e472 + _e481, _e489 + _e498, _e506 + _e515, _e523 + _e532);
                float _e535 = d0_0_;
                d0_0_ = _e535 + metal::dot(x0_2_, f0_2_);
                float _e544 = table.inner[(z0_0_ >> 12u) & 15u];
                float _e553 = table.inner[16u + ((z0_0_ >> 8u) & 15u)];
                float _e561 = table.inner[(z0_1_ >> 12u) & 15u];
                float _e570 = table.inner[16u + ((z0_1_ >> 8u) & 15u)];
                float _e578 = table.inner[(z0_2_ >> 12u) & 15u];
                float _e587 = table.inner[16u + ((z0_2_ >> 8u) & 15u)];
                float _e595 = table.inner[(z0_3_ >> 12u) & 15u];
                float _e604 = table.inner[16u + ((z0_3_ >> 8u) & 15u)];
                metal::float4 f0_3_ = metal::float4(_e544 + _e553, _e561 + _e570, _e578 + _e587, _e595 + _e604);
                float _e607 = d0_0_;
                d0_0_ = _e607 + metal::dot(x0_3_, f0_3_);
                float _e616 = table.inner[(z0_0_ >> 14u) & 15u];
                float _e625 = table.inner[16u + ((z0_0_ >> 10u) & 15u)];
                float _e633 = table.inner[(z0_1_ >> 14u) & 15u];
                float _e642 = table.inner[16u + ((z0_1_ >> 10u) & 15u)];
                float _e650 = table.inner[(z0_2_ >> 14u) & 15u];
                float _e659 = table.inner[16u + ((z0_2_ >> 10u) & 15u)];
                float _e667 = table.inner[(z0_3_ >> 14u) & 15u];
                float _e676 = table.inner[16u + ((z0_3_ >> 10u) & 15u)];
                metal::float4 f0_4_ = metal::float4(_e616 + _e625, _e633 + _e642, _e650 + _e659, _e667 + _e676);
                float _e679 = d0_0_;
                d0_0_ = _e679 + metal::dot(x0_4_, f0_4_);
                float _e688 = table.inner[(z0_0_ >> 16u) & 15u];
                float _e697 = table.inner[16u + ((z0_0_ >> 12u) & 15u)];
                float _e705 = table.inner[(z0_1_ >> 16u) & 15u];
                float _e714 = table.inner[16u + ((z0_1_ >> 12u) & 15u)];
                float _e722 = table.inner[(z0_2_ >> 16u) & 15u];
                float _e731 = table.inner[16u + ((z0_2_ >> 12u) & 15u)];
                float _e739 = table.inner[(z0_3_ >> 16u) & 15u];
                float _e748 = table.inner[16u + ((z0_3_ >> 12u) & 15u)];
                metal::float4 f0_5_ = metal::float4(_e688 + _e697, _e705 + _e714, _e722 + _e731, _e739 + _e748);
                float _e751 = d0_0_;
                d0_0_ = _e751 + metal::dot(x0_5_, f0_5_);
                float _e760 = table.inner[(z0_0_ >> 18u) & 15u];
                float _e769 = table.inner[16u + ((z0_0_ >> 14u) & 15u)];
                float _e777 = table.inner[(z0_1_ >> 18u) & 15u];
                float _e786 = table.inner[16u + ((z0_1_ >> 14u) & 15u)];
                float _e794 = table.inner[(z0_2_ >> 18u) & 15u];
                float _e803 = table.inner[16u + ((z0_2_ >> 14u) & 15u)];
                float _e811 = table.inner[(z0_3_ >> 18u) & 15u];
                float _e820 = table.inner[16u + ((z0_3_ >> 14u) & 15u)];
                metal::float4 f0_6_ = metal::float4(_e760 + _e769, _e777 + _e786, _e794 + _e803, _e811 + _e820);
                float _e823 = d0_0_;
                d0_0_ = _e823 + metal::dot(x0_6_, f0_6_);
                float _e832 = table.inner[(z0_0_ >> 20u) & 15u];
                float _e841 = table.inner[16u + ((z0_0_ >> 16u) & 15u)];
                float _e849 = table.inner[(z0_1_ >> 20u) & 15u];
                float _e858 = table.inner[16u + ((z0_1_ >> 16u) & 15u)];
                float _e866 = table.inner[(z0_2_ >> 20u) & 15u];
                float _e875 = table.inner[16u + ((z0_2_ >> 16u) & 15u)];
                float _e883 = table.inner[(z0_3_ >> 20u) & 15u];
                float _e892 = table.inner[16u + ((z0_3_ >> 16u) & 15u)];
                metal::float4 f0_7_ = metal::float4(_e832 + _e841, _e849 + _e858, _e866 + _e875, _e883 + _e892);
                float _e895 = d0_0_;
                d0_0_ = _e895 + metal::dot(x0_7_, f0_7_);
            }
            float _e898 = sum0_0_;
            float _e899 = d0_0_;
            float _e902 = all0_.x;
            float _e904 = all0_.y;
            float _e907 = all0_.z;
            float _e910 = all0_.w;
            sum0_0_ = _e898 + ((a0_ * _e899) + (0.0 * (((_e902 + _e904) + _e907) + _e910)));
        }
    }
    float _e922 = sum0_0_;
    part.inner[0u + lid] = _e922;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    o = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e991 = o;
            o = _e991 + 256u;
        }
        loop_init_2 = false;
        uint _e924 = o;
        if (_e924 < 16u) {
        } else {
            break;
        }
        {
            uint _e927 = o;
            uint r = _e927 & 15u;
            uint _e930 = o;
            uint token = naga_mod(_e930 >> 4u, 1u);
            uint _e935 = o;
            uint p_1 = naga_div(_e935 >> 4u, 1u);
            uint output = ((first + p_1) * 16u) + r;
            uint _e946 = job.rows;
            if (output < _e946) {
                t = 0.0;
                k = 0u;
                uint2 loop_bound_3 = uint2(4294967295u);
                bool loop_init_3 = true;
                while(true) {
                    if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                    loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                    if (!loop_init_3) {
                        uint _e971 = k;
                        k = _e971 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e952 = k;
                    if (_e952 < 16u) {
                    } else {
                        break;
                    }
                    {
                        float _e955 = t;
                        uint _e962 = k;
                        float _e968 = part.inner[((((p_1 * 1u) + token) * 256u) + (_e962 * 16u)) + r];
                        t = _e955 + _e968;
                    }
                }
                float _e973 = t;
                uint _e977 = job.bias;
                float _e980 = vectors[_e977 + output];
                t = _e973 + _e980;
                uint _e985 = job.y_stride;
                float _e990 = t;
                y[(y_first + (token * _e985)) + output] = _e990;
            }
        }
    }
    return;
}
