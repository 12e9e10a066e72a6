//! What the machine is: caches and free memory as the system states them, the clock as measured.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Sizes of caches in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Second level of one core.
    pub second: usize,
    /// All caches of the last level together.
    pub last: usize,
}

impl Caches {
    /// Where the system does not say: usual sizes.
    const USUAL: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    /// Those of this machine, as Linux states them; usual sizes elsewhere.
    pub fn detect() -> Caches {
        Self::in_folder(Path::new("/sys/devices/system/cpu")).unwrap_or(Self::USUAL)
    }

    /// Reads `cpuN/cache/indexN/{level,type,size,shared_cpu_list}`.
    fn in_folder(folder: &Path) -> Option<Caches> {
        // By level, and by the processors that share one.
        let mut levels: BTreeMap<u32, BTreeMap<String, usize>> = BTreeMap::new();
        for cpu in fs::read_dir(folder).ok()?.flatten() {
            let Ok(caches) = fs::read_dir(cpu.path().join("cache")) else { continue };
            for cache in caches.flatten() {
                let read = |name: &str| fs::read_to_string(cache.path().join(name)).ok();
                let (Some(level), Some(kind), Some(size), Some(shared)) =
                    (read("level"), read("type"), read("size"), read("shared_cpu_list"))
                else {
                    continue;
                };
                if let (Ok(level), Some(size)) = (level.trim().parse(), bytes_of(size.trim()))
                    && kind.trim() != "Instruction"
                {
                    levels.entry(level).or_default().insert(shared, size);
                }
            }
        }
        let second = *levels.get(&2)?.values().next()?;
        let last = levels.last_key_value()?.1.values().sum();
        Some(Caches { second, last })
    }
}

/// `48K`, `32768K`, `1M`.
fn bytes_of(text: &str) -> Option<usize> {
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<usize>().ok()?.checked_mul(unit)
}

/// Cycles per nanosecond of one core: a chain of operations of one cycle each, timed. The best of several, so that an
/// interruption does not count. Code with wide vectors may run at a lower clock than this.
pub fn clock_ghz() -> f64 {
    const STEPS: u32 = 200_000;
    // Unknown to the compiler, which could shorten the chain otherwise. Additions of constants take no time at all on some
    // processors (they are done while registers are renamed), additions of registers do.
    let (a, b) = (black_box(0x9E37_79B9_7F4A_7C15_u64), black_box(0x5851_F42D_4C95_7F2D_u64));
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let mut x = black_box(1_u64);
        let started = Instant::now();
        for _ in 0..STEPS {
            x = x.wrapping_add(a) ^ b;
        }
        black_box(x);
        best = best.min(started.elapsed().as_nanos() as f64);
    }
    f64::from(2 * STEPS) / best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_linux_states_them_and_a_shared_one_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        for (cpu, shared) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
            for (index, level, kind, size, list) in [
                (0, "1", "Data", "48K", cpu.to_string()),
                (1, "1", "Instruction", "64K", cpu.to_string()),
                (2, "2", "Unified", "2M", cpu.to_string()),
                (3, "3", "Unified", "32768K", shared.to_owned()),
            ] {
                let folder = dir.path().join(format!("cpu{cpu}/cache/index{index}"));
                fs::create_dir_all(&folder).unwrap();
                for (name, value) in
                    [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", &list)]
                {
                    fs::write(folder.join(name), format!("{value}\n")).unwrap();
                }
            }
        }
        fs::create_dir(dir.path().join("cpufreq")).unwrap();
        let expected = Caches { second: 2 << 20, last: 64 << 20 };
        assert_eq!(Caches::in_folder(dir.path()), Some(expected));
        assert_eq!(Caches::in_folder(&dir.path().join("cpu0")), None, "nothing is stated there");
    }

    #[test]
    fn the_clock_is_one_that_processors_have() {
        let ghz = clock_ghz();
        assert!((0.2..10.0).contains(&ghz), "{ghz} GHz");
    }
}
