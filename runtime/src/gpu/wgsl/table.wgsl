// The levels of a learned type.
var<workgroup> table: array<f32, LEVELS>;
const levels = array<f32, LEVELS>(LIST);

//: part fill
for (var i = lid; i < LEVELS; i += THREADS) {
    table[i] = levels[i];
}
workgroupBarrier();
