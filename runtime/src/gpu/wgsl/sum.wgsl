// Words of a buffer added up, and nothing else. The job is the number of quads of words; each thread writes its sum.

struct Job { quads: u32, unused: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    var s = vec4<u32>();
    let step = groups.x * THREADS;
    var i = id.x;
    for (; i + 3u * step < job.quads; i += 4u * step) {
        s += w[i] + w[i + step] + w[i + 2u * step] + w[i + 3u * step];
    }
    for (; i < job.quads; i += step) {
        s += w[i];
    }
    y[id.x] = s.x + s.y + s.z + s.w;
}
