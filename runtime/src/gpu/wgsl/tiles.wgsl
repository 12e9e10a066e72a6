// Tiles of the choices of a step: those of an expert, some at a time, so that its weights are read once for them. There is one workgroup.

struct Job { choices: u32, tiles: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> chosen: array<u32>;
@group(0) @binding(1) var<storage, read_write> tiles: array<u32>;
// Choices of each expert; then those that have no place as yet.
var<workgroup> counts: array<atomic<u32>, EXPERTS>;
// The first tile of each expert.
var<workgroup> starts: array<u32, EXPERTS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) lid: u32) {
    for (var e = lid; e < EXPERTS; e += THREADS) { atomicStore(&counts[e], 0u); }
    workgroupBarrier();
    for (var c = lid; c < job.choices; c += THREADS) { atomicAdd(&counts[chosen[2u * c]], 1u); }
    workgroupBarrier();
    for (var e = lid; e < EXPERTS; e += THREADS) {
        var start = 0u;
        for (var other = 0u; other < e; other++) { start += (atomicLoad(&counts[other]) + SIZE - 1u) / SIZE; }
        starts[e] = start;
        let count = atomicLoad(&counts[e]);
        let own = (count + SIZE - 1u) / SIZE;
        for (var t = 0u; t < own; t++) { tiles[(start + t) * (SIZE + 1u)] = e; }
        for (var slot = count; slot < own * SIZE; slot++) {
            tiles[(start + slot / SIZE) * (SIZE + 1u) + 1u + slot % SIZE] = NONE;
        }
        // Behind the last expert's are none.
        if (e == EXPERTS - 1u) {
            for (var t = start + own; t < job.tiles; t++) { tiles[t * (SIZE + 1u)] = NONE; }
        }
    }
    workgroupBarrier();
    // Which place a choice has decides nothing that is computed of it.
    for (var c = lid; c < job.choices; c += THREADS) {
        let e = chosen[2u * c];
        let slot = atomicSub(&counts[e], 1u) - 1u;
        tiles[(starts[e] + slot / SIZE) * (SIZE + 1u) + 1u + slot % SIZE] = c;
    }
}
