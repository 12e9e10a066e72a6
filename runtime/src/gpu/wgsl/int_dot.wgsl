// The inner part of a matrix times a vector in integers: inputs become two signed bytes each, for products of four bytes at a time.

//: part memory
var<workgroup> halves: array<vec2<u32>, QUADS_OF_ROUND>;
var<workgroup> most: array<f32, PIECES>;
var<workgroup> total: array<f32, PIECES>;
var<workgroup> block: array<vec2<f32>, BLOCKS>;

fn halves_of(x: vec4<f32>) -> vec2<u32> {
    let v = vec4<i32>(round(x));
    let upper = (v + 128) >> vec4<u32>(8u);
    return vec2<u32>(pack4xI8(upper), pack4xI8(v - upper * 256));
}

//: part loop
for (var round_first = 0u; round_first < job.superblocks; round_first += BLOCKS) {
    workgroupBarrier();
    let quad_first = round_first * QUADS + lid * 4u;
    var x0 = vec4<f32>();
    var x1 = vec4<f32>();
    var x2 = vec4<f32>();
    var x3 = vec4<f32>();
    if (lid < PIECES) {
        if (quad_first < job.superblocks * QUADS) {
            x0 = x[x_first + quad_first];
            x1 = x[x_first + quad_first + 1u];
            x2 = x[x_first + quad_first + 2u];
            x3 = x[x_first + quad_first + 3u];
        }
        let m = max(max(abs(x0), abs(x1)), max(abs(x2), abs(x3)));
        let s = (x0 + x1) + (x2 + x3);
        most[lid] = max(max(m.x, m.y), max(m.z, m.w));
        total[lid] = (s.x + s.y) + (s.z + s.w);
    }
    workgroupBarrier();
    if (lid < PIECES) {
        let own = lid / PIECES_OF_BLOCK * PIECES_OF_BLOCK;
        var top = most[own];
        var sum = total[own];
        for (var i = 1u; i < PIECES_OF_BLOCK; i++) {
            top = max(top, most[own + i]);
            sum += total[own + i];
        }
        let up = select(0.0, LARGEST / top, top > 0.0);
        halves[lid * 4u] = halves_of(x0 * up);
        halves[lid * 4u + 1u] = halves_of(x1 * up);
        halves[lid * 4u + 2u] = halves_of(x2 * up);
        halves[lid * 4u + 3u] = halves_of(x3 * up);
        if (own == lid) { block[lid / PIECES_OF_BLOCK] = vec2<f32>(top * ONE, sum); }
    }
    workgroupBarrier();
    for (var b = round_first + slice; b < min(job.superblocks, round_first + BLOCKS); b += SLICES) {
        let here = (b - round_first) * QUADS;
        let input = block[b - round_first];
        //: insert BEGIN
        //: insert GROUPS
        //: insert END
    }
}

//: part begin
let atPANEL = panelPANEL + HEAD_WORDS + b * SUPERBLOCK_WORDS;
//: insert SCALES
var upperPANEL = 0i;
var lowerPANEL = 0i;

//: part input
let hQUAD = halves[here + QUADu];

//: part products
let qPANEL_QUAD = CODES;
upperPANEL += dot4I8Packed(qPANEL_QUAD, hQUAD.x);
lowerPANEL += dot4I8Packed(qPANEL_QUAD, hQUAD.y);

//: part end
sumPANEL_0 += SCALE * input.x * (256.0 * f32(upperPANEL) + f32(lowerPANEL)) + OFFSET * input.y;
