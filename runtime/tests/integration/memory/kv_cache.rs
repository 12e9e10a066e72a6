//! What the key/value cache takes is what is said beforehand, and no more than the positions so far need.

use qsf_format::{ModelConfig, SlidingWindow};
use qsf_runtime::cpu::{Cpu, Isa, KvTypes};
use qsf_runtime::{KvCache, KvOptions};

use super::{HELD_BY_THREAD, alone};

fn config(window: Option<u32>) -> ModelConfig {
    ModelConfig {
        layers: 3,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 40,
        sliding_window: window.map(|size| SlidingWindow { size, layers: vec![0, 2] }),
        ..ModelConfig::default()
    }
}

#[test]
fn a_cache_takes_what_it_says_and_grows_with_its_positions() {
    if !alone("memory::kv_cache::a_cache_takes_what_it_says_and_grows_with_its_positions") {
        return;
    }
    let cpu = Cpu::new(Isa::best());
    let row = vec![0.5; 80];
    for window in [None, Some(100)] {
        for types in ["f32", "f16", "8bit", "8bit,4bit", "2bit,f32"] {
            let types: KvTypes = types.parse().unwrap();
            let (config, options) = (config(window), KvOptions::from(types));
            let expected = KvCache::bytes(&config, 700, 8, options) as usize;
            // What threads keep.
            let mut cache = KvCache::new(&config, 700, 8, options).unwrap();
            cache.reserve(1).unwrap();
            cache.store(&cpu, 0, &row, &row);
            drop(cache);

            let mut held = Vec::with_capacity(700);
            let before = HELD_BY_THREAD.get();
            let mut cache = KvCache::new(&config, 700, 8, options).unwrap();
            for _ in 0..700 {
                cache.reserve(1).unwrap();
                (0..3).for_each(|layer| cache.store(&cpu, layer, &row, &row));
                cache.advance(1);
                let lists = (HELD_BY_THREAD.get() - before) as usize;
                held.push(cache.slabs().given() as usize + lists);
            }
            // Lists of layers and pages come on top.
            let (full, lists) = (held[699], 6_000);
            assert!(
                (expected..expected + lists).contains(&full),
                "{types} {window:?}: {full}, said {expected}"
            );
            assert!(window.is_some() || held[255] < full / 2 && held[256] > held[255], "{types}: {held:?}");
            if window.is_some() {
                let all = KvCache::bytes(&config, 700, 8, KvOptions { whole: true, ..types.into() }) as usize;
                assert!(expected < all / 2 + all / 4, "{types}: {expected} of {all}");
            }
        }
    }
    let halves = |types: &str| {
        KvCache::bytes(&config(None), 4096, 8, KvOptions::from(types.parse::<KvTypes>().unwrap()))
    };
    let [f32, f16, eight, four, two] = ["f32", "f16", "8bit", "4bit", "2bit"].map(halves);
    assert!(f16 < f32 * 6 / 10 && eight < f16 * 7 / 10 && four < eight * 7 / 10 && two < four * 7 / 10);
}
