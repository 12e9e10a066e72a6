// What norms of rows share. Each thread has some values of a row, one variable for each.

//: part sum
var<workgroup> part: array<f32, THREADS>;
var<workgroup> some: array<f32, ADDERS>;

// A value of every thread added up, for every thread, always in the same order.
fn sum(lid: u32, value: f32) -> f32 {
    workgroupBarrier();
    part[lid] = value;
    workgroupBarrier();
    if (lid < ADDERS) { some[lid] = SUM_OF_PARTS; }
    workgroupBarrier();
    return SUM_OF_SOME;
}

//: part rms_factor
let TO_factor = inverseSqrt(sum(lid, SQUARES) / MEAN_OF + job.epsilon);

//: part mean
let TO_mean = sum(lid, VALUES) / MEAN_OF;

//: part distance
let TO_dINDEX = VALUE - TO_mean;

//: part normalized
//: if BIAS
let RESULT = VALUE * TO_factor * vectors[GAINS + PLACE] + vectors[GAINS + WIDTH + PLACE];
//: else
let RESULT = VALUE * TO_factor * vectors[GAINS + PLACE];
//: end

//: part store
//: if INSIDE
{ ARRAY[BASE + PLACE] = VALUE; }
//: else
if (PLACE < WIDTH) { ARRAY[BASE + PLACE] = VALUE; }
//: end
