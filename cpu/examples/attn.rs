use qsf_cpu::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |i: usize, d: usize| a.get(i).and_then(|s| s.parse().ok()).unwrap_or(d);
    let types = a.get(1).map(|s| s.as_str()).unwrap_or("8bit").to_owned();
    let threads = get(2, 2);
    let kv_heads = get(3, 4);
    let positions = get(4, 16384);
    let layers = get(5, 22);
    let tokens = get(6, 1);
    let heads = get(7, 32);
    let dim = get(8, 64);
    let cpu = Cpu::with_threads(Isa::from_env().unwrap(), threads).unwrap();
    let mut st = 1u64;
    let mut rnd = || { let mut s = 0.0; for _ in 0..4 { st = st.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407); s += (st >> 40) as f32 / (1u64 << 24) as f32 - 0.5; } s * 1.7 };
    let base: Vec<f32> = (0..256 * kv_heads * dim).map(|_| rnd()).collect();
    let p = Attention { heads, window: usize::MAX, first: 0, scale: 1.0/(dim as f32).sqrt(), softcap: None, slopes: &[], sinks: &[], by_unit: false };
    let shape = KvShape { kv_heads, head_dim: dim, value_dim: dim, types: types.parse().unwrap() };
    let kvs: Vec<KvLayer> = (0..layers).map(|_| { let mut kv = KvLayer::new(shape, positions); kv.reserve(positions).unwrap(); let mut at = 0; while at < positions { let n = 256.min(positions - at); kv.store(&cpu, at, &base[..n*kv_heads*dim], &base[..n*kv_heads*dim]); at += n; } kv }).collect();
    let mut buffer = AttentionBuffer::new(heads, dim, positions).unwrap();
    let q: Vec<f32> = (0..tokens * heads * dim).map(|_| rnd()).collect();
    let mut out = vec![0.0; q.len()];
    let mut times = vec![];
    let start = Instant::now();
    while times.len() < 5 || (start.elapsed().as_secs_f64() < 1.5 && times.len() < 4400) {
        for kv in &kvs { let t = Instant::now(); cpu.attend(&p, kv, positions - tokens, &q, &mut buffer, &mut out); times.push(t.elapsed().as_secs_f64() * 1e3 * layers as f64); }
        if start.elapsed().as_secs_f64() > 20.0 { break }
    }
    times.sort_by(f64::total_cmp);
    let h = out.iter().fold(0u64, |h, v| h.wrapping_mul(31).wrapping_add(u64::from(v.to_bits())));
    println!("{types} t{threads} {heads}/{kv_heads}x{dim} pos {positions} tokens {tokens}: min {:.2} ms, p10 {:.2}, median {:.2} ms  hash {h:x}", times[0], times[times.len()/10], times[times.len() / 2]);
}
