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
constant type_7 levels = type_7 {{-74.0, 69.0, 17.0, 26.0, 53.0, -34.0, 3.0, -13.0, -8.0, -3.0, 7.0, -23.0, -22.0, -57.0, -16.0, 42.0, 4.0, 18.0, 26.0, -26.0, -6.0, -18.0, 54.0, -7.0, -13.0, -53.0, -36.0, -29.0, 12.0, -20.0, -1.0, 9.0}};

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
    uint panel0_ = (0u + _e35) + (metal::min(first + 0u, (_e41 - 1u) >> 4u) * (8u + (_e50 * 64u)));
    uint _e61 = w[panel0_ + (row >> 1u)];
    float head0_ = float2(as_type<half2>((_e61 >> ((row & 1u) << 4u)))).x;
    b = slice;
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e1022 = b;
            b = _e1022 + 16u;
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
            uint at0_ = (panel0_ + 8u) + (_e79 * 64u);
            float a0_ = head0_ * 0.0078125;
            d0_0_ = 0.0;
            all0_ = metal::float4 {};
            {
                uint v0_0_ = w[(at0_ + 0u) + row];
                uint v0_1_ = w[(at0_ + 16u) + row];
                uint v0_2_ = w[(at0_ + 32u) + row];
                uint v0_3_ = w[(at0_ + 48u) + row];
                before0_ = 0u;
                uint _e116 = b;
                if (_e116 > 0u) {
                    uint _e126 = w[((at0_ + 32u) + row) - 64u];
                    uint _e136 = w[((at0_ + 48u) + row) - 64u];
                    before0_ = (_e126 >> 24u) | ((_e136 >> 24u) << 8u);
                }
                uint own0_0_ = (((((v0_0_ >> 0u) & 255u) << 0u) | (((v0_1_ >> 0u) & 255u) << 8u)) | (((v0_2_ >> 0u) & 255u) << 16u)) | (((v0_3_ >> 0u) & 255u) << 24u);
                uint _e169 = before0_;
                uint z0_0_ = _e169 | (own0_0_ << 16u);
                uint m0_0_ = z0_0_ ^ (z0_0_ >> 8u);
                uint n0_0_ = own0_0_ ^ (own0_0_ >> 8u);
                uint own0_1_ = (((((v0_0_ >> 8u) & 255u) << 0u) | (((v0_1_ >> 8u) & 255u) << 8u)) | (((v0_2_ >> 8u) & 255u) << 16u)) | (((v0_3_ >> 8u) & 255u) << 24u);
                uint z0_1_ = (own0_0_ >> 16u) | (own0_1_ << 16u);
                uint m0_1_ = z0_1_ ^ (z0_1_ >> 8u);
                uint n0_1_ = own0_1_ ^ (own0_1_ >> 8u);
                uint own0_2_ = (((((v0_0_ >> 16u) & 255u) << 0u) | (((v0_1_ >> 16u) & 255u) << 8u)) | (((v0_2_ >> 16u) & 255u) << 16u)) | (((v0_3_ >> 16u) & 255u) << 24u);
                uint z0_2_ = (own0_1_ >> 16u) | (own0_2_ << 16u);
                uint m0_2_ = z0_2_ ^ (z0_2_ >> 8u);
                uint n0_2_ = own0_2_ ^ (own0_2_ >> 8u);
                uint own0_3_ = (((((v0_0_ >> 24u) & 255u) << 0u) | (((v0_1_ >> 24u) & 255u) << 8u)) | (((v0_2_ >> 24u) & 255u) << 16u)) | (((v0_3_ >> 24u) & 255u) << 24u);
                uint z0_3_ = (own0_2_ >> 16u) | (own0_3_ << 16u);
                uint m0_3_ = z0_3_ ^ (z0_3_ >> 8u);
                uint n0_3_ = own0_3_ ^ (own0_3_ >> 8u);
                uint _e294 = b;
                uint _e303 = job.x_stride;
                metal::float4 x0_0_ = x_1[((x_first + (_e294 * 8u)) + 0u) + (0u * _e303)];
                metal::float4 _e308 = all0_;
                all0_ = _e308 + x0_0_;
                uint _e311 = b;
                uint _e320 = job.x_stride;
                metal::float4 x0_1_ = x_1[((x_first + (_e311 * 8u)) + 1u) + (0u * _e320)];
                metal::float4 _e325 = all0_;
                all0_ = _e325 + x0_1_;
                uint _e328 = b;
                uint _e337 = job.x_stride;
                metal::float4 x0_2_ = x_1[((x_first + (_e328 * 8u)) + 2u) + (0u * _e337)];
                metal::float4 _e342 = all0_;
                all0_ = _e342 + x0_2_;
                uint _e345 = b;
                uint _e354 = job.x_stride;
                metal::float4 x0_3_ = x_1[((x_first + (_e345 * 8u)) + 3u) + (0u * _e354)];
                metal::float4 _e359 = all0_;
                all0_ = _e359 + x0_3_;
                uint _e362 = b;
                uint _e371 = job.x_stride;
                metal::float4 x0_4_ = x_1[((x_first + (_e362 * 8u)) + 4u) + (0u * _e371)];
                metal::float4 _e376 = all0_;
                all0_ = _e376 + x0_4_;
                uint _e379 = b;
                uint _e388 = job.x_stride;
                metal::float4 x0_5_ = x_1[((x_first + (_e379 * 8u)) + 5u) + (0u * _e388)];
                metal::float4 _e393 = all0_;
                all0_ = _e393 + x0_5_;
                uint _e396 = b;
                uint _e405 = job.x_stride;
                metal::float4 x0_6_ = x_1[((x_first + (_e396 * 8u)) + 6u) + (0u * _e405)];
                metal::float4 _e410 = all0_;
                all0_ = _e410 + x0_6_;
                uint _e413 = b;
                uint _e422 = job.x_stride;
                metal::float4 x0_7_ = x_1[((x_first + (_e413 * 8u)) + 7u) + (0u * _e422)];
                metal::float4 _e427 = all0_;
                all0_ = _e427 + x0_7_;
                float _e435 = table.inner[(own0_0_ >> 0u) & 15u];
                float _e444 = table.inner[16u + ((m0_0_ >> 4u) & 15u)];
                float _e452 = table.inner[(own0_1_ >> 0u) & 15u];
                float _e461 = table.inner[16u + ((m0_1_ >> 4u) & 15u)];
                float _e469 = table.inner[(own0_2_ >> 0u) & 15u];
                float _e478 = table.inner[16u + ((m0_2_ >> 4u) & 15u)];
                float _e486 = table.inner[(own0_3_ >> 0u) & 15u];
                float _e495 = table.inner[16u + ((m0_3_ >> 4u) & 15u)];
                metal::float4 f0_0_ = metal::float4(_e435 + _e444, _e452 + _e461, _e469 + _e478, _e486 + _e495);
                float _e498 = d0_0_;
                d0_0_ = _e498 + metal::dot(x0_0_, f0_0_);
                float _e507 = table.inner[(own0_0_ >> 4u) & 15u];
                float _e516 = table.inner[16u + ((m0_0_ >> 8u) & 15u)];
                float _e524 = table.inner[(own0_1_ >> 4u) & 15u];
                float _e533 = table.inner[16u + ((m0_1_ >> 8u) & 15u)];
                float _e541 = table.inner[(own0_2_ >> 4u) & 15u];
                float _e550 = table.inner[16u + ((m0_2_ >> 8u) & 15u)];
                float _e558 = table.inner[(own0_3_ >> 4u) & 15u];
                float _e567 = table.inner[16u + ((m0_3_ >> 8u) & 15u)];
                metal::float4 f0_1_ = metal::float4(_e507 + _e516, _e524 + _e533, _e541 + _e550, _e558 + _e567);
                float _e570 = d0_0_;
                d0_0_ = _e570 + metal::dot(x0_1_, f0_1_);
                float _e579 = table.inner[(own0_0_ >> 8u) & 15u];
                float _e588 = table.inner[16u + ((m0_0_ >> 12u) & 15u)];
                float _e596 = table.inner[(own0_1_ >> 8u) & 15u];
                float _e605 = table.inner[16u + ((m0_1_ >> 12u) & 15u)];
                float _e613 = table.inner[(own0_2_ >> 8u) & 15u];
                float _e622 = table.inner[16u + ((m0_2_ >> 12u) & 15u)];
                float _e630 = table.inner[(own0_3_ >> 8u) & 15u];
                float _e639 = table.inner[16u + ((m0_3_ >> 12u) & 15u)];
                metal::float4 f0_2_ = metal::float4(_e579 + _e588, _e596 + _e605, _e613 + _e622, _e630 + _e639);
                float _e642 = d0_0_;
                d0_0_ = _e642 + metal::dot(x0_2_, f0_2_);
                float _e651 = table.inner[(own0_0_ >> 12u) & 15u];
                float _e660 = table.inner[16u + ((m0_0_ >> 16u) & 15u)];
                float _e668 = table.inner[(own0_1_ >> 12u) & 15u];
                float _e677 = table.inner[16u + ((m0_1_ >> 16u) & 15u)];
                float _e685 = table.inner[(own0_2_ >> 12u) & 15u];
                float _e694 = table.inner[16u + ((m0_2_ >> 16u) & 15u)];
                float _e702 = table.inner[(own0_3_ >> 12u) & 15u];
                float _e711 = table.inner[16u + ((m0_3_ >> 16u) & 15u)];
                metal::float4 f0_3_ = metal::float4(_e651 + _e660, _e668 + _e677, _e685 + _e694, _e702 + _e711);
                float _e714 = d0_0_;
                d0_0_ = _e714 + metal::dot(x0_3_, f0_3_);
                float _e723 = table.inner[(own0_0_ >> 16u) & 15u];
                float _e732 = table.inner[16u + ((m0_0_ >> 20u) & 15u)];
                float _e740 = table.inner[(own0_1_ >> 16u) & 15u];
                float _e749 = table.inner[16u + ((m0_1_ >> 20u) & 15u)];
                float _e757 = table.inner[(own0_2_ >> 16u) & 15u];
                float _e766 = table.inner[16u + ((m0_2_ >> 20u) & 15u)];
                float _e774 = table.inner[(own0_3_ >> 16u) & 15u];
                float _e783 = table.inner[16u + ((m0_3_ >> 20u) & 15u)];
                metal::float4 f0_4_ = metal::float4(_e723 + _e732, _e740 + _e749, _e757 + _e766, _e774 + _e783);
                float _e786 = d0_0_;
                d0_0_ = _e786 + metal::dot(x0_4_, f0_4_);
                float _e795 = table.inner[(own0_0_ >> 20u) & 15u];
                float _e804 = table.inner[16u + ((n0_0_ >> 8u) & 15u)];
                float _e812 = table.inner[(own0_1_ >> 20u) & 15u];
                float _e821 = table.inner[16u + ((n0_1_ >> 8u) & 15u)];
                float _e829 = table.inner[(own0_2_ >> 20u) & 15u];
                float _e838 = table.inner[16u + ((n0_2_ >> 8u) & 15u)];
                float _e846 = table.inner[(own0_3_ >> 20u) & 15u];
                float _e855 = table.inner[16u + ((n0_3_ >> 8u) & 15u)];
                metal::float4 f0_5_ = metal::float4(_e795 + _e804, _e812 + _e821, _e829 + _e838, _e846 + _e855);
                float _e858 = d0_0_;
                d0_0_ = _e858 + metal::dot(x0_5_, f0_5_);
                float _e867 = table.inner[(own0_0_ >> 24u) & 15u];
                float _e876 = table.inner[16u + ((n0_0_ >> 12u) & 15u)];
                float _e884 = table.inner[(own0_1_ >> 24u) & 15u];
                float _e893 = table.inner[16u + ((n0_1_ >> 12u) & 15u)];
                float _e901 = table.inner[(own0_2_ >> 24u) & 15u];
                float _e910 = table.inner[16u + ((n0_2_ >> 12u) & 15u)];
                float _e918 = table.inner[(own0_3_ >> 24u) & 15u];
                float _e927 = table.inner[16u + ((n0_3_ >> 12u) & 15u)];
                metal::float4 f0_6_ = metal::float4(_e867 + _e876, _e884 + _e893, _e901 + _e910, _e918 + _e927);
                float _e930 = d0_0_;
                d0_0_ = _e930 + metal::dot(x0_6_, f0_6_);
                float _e939 = table.inner[(own0_0_ >> 28u) & 15u];
                float _e948 = table.inner[16u + ((n0_0_ >> 16u) & 15u)];
                float _e956 = table.inner[(own0_1_ >> 28u) & 15u];
                float _e965 = table.inner[16u + ((n0_1_ >> 16u) & 15u)];
                float _e973 = table.inner[(own0_2_ >> 28u) & 15u];
                float _e982 = table.inner[16u + ((n0_2_ >> 16u) & 15u)];
                float _e990 = table.inner[(own0_3_ >> 28u) & 15u];
                float _e999 = table.inner[16u + ((n0_3_ >> 16u) & 15u)];
                metal::float4 f0_7_ = metal::float4(_e939 + _e948, _e956 + _e965, _e973 + _e982, _e990 + _e999);
                float _e1002 = d0_0_;
                d0_0_ = _e1002 + metal::dot(x0_7_, f0_7_);
            }
            float _e1005 = sum0_0_;
            float _e1006 = d0_0_;
            float _e1009 = all0_.x;
            float _e1011 = all0_.y;
            float _e1014 = all0_.z;
            float _e1017 = all0_.w;
            sum0_0_ = _e1005 + ((a0_ * _e1006) + (0.0 * (((_e1009 + _e1011) + _e1014) + _e1017)));
        }
    }
    float _e1029 = sum0_0_;
    part.inner[0u + lid] = _e1029;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    o = lid;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e1098 = o;
            o = _e1098 + 256u;
        }
        loop_init_2 = false;
        uint _e1031 = o;
        if (_e1031 < 16u) {
        } else {
            break;
        }
        {
            uint _e1034 = o;
            uint r = _e1034 & 15u;
            uint _e1037 = o;
            uint token = naga_mod(_e1037 >> 4u, 1u);
            uint _e1042 = o;
            uint p_1 = naga_div(_e1042 >> 4u, 1u);
            uint output = ((first + p_1) * 16u) + r;
            uint _e1053 = job.rows;
            if (output < _e1053) {
                t = 0.0;
                k = 0u;
                uint2 loop_bound_3 = uint2(4294967295u);
                bool loop_init_3 = true;
                while(true) {
                    if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                    loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                    if (!loop_init_3) {
                        uint _e1078 = k;
                        k = _e1078 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e1059 = k;
                    if (_e1059 < 16u) {
                    } else {
                        break;
                    }
                    {
                        float _e1062 = t;
                        uint _e1069 = k;
                        float _e1075 = part.inner[((((p_1 * 1u) + token) * 256u) + (_e1069 * 16u)) + r];
                        t = _e1062 + _e1075;
                    }
                }
                float _e1080 = t;
                uint _e1084 = job.bias;
                float _e1087 = vectors[_e1084 + output];
                t = _e1080 + _e1087;
                uint _e1092 = job.y_stride;
                float _e1097 = t;
                y[(y_first + (token * _e1092)) + output] = _e1097;
            }
        }
    }
    return;
}
