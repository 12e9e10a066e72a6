//: part rotate
// A rotation by a Hadamard matrix. Done twice, it is undone. All threads must have written before it; all may read behind it.
for (var apart = 1u; apart < BLOCK; apart <<= 1u) {
    for (var i = lid; i < PAIRS; i += THREADS) {
        let a = i + (i & ~(apart - 1u));
        let b = a + apart;
        let x = ARRAY[a];
        let y = ARRAY[b];
        ARRAY[a] = x + y;
        ARRAY[b] = x - y;
    }
    workgroupBarrier();
}
for (var i = lid; i < WIDTH; i += THREADS) {
    ARRAY[i] *= SCALE;
}
workgroupBarrier();
