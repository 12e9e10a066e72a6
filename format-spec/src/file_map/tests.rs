use super::*;

/// A mapped file of several large pages and a bit, and what is in it.
fn sample() -> (FileMap, Vec<u8>) {
    let bytes: Vec<u8> = (0..5 * HUGE_PAGE + 12_345).map(|i| ((i * 31) >> 6) as u8).collect();
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, &bytes).unwrap();
    (FileMap::new(&File::open(&path).unwrap()).unwrap(), bytes)
}

#[test]
fn large_pages_are_inside_of_the_range_and_begin_at_multiples_of_their_size() {
    let (map, bytes) = sample();
    for range in [0..bytes.len(), 1..bytes.len() - 1, HUGE_PAGE + 5..4 * HUGE_PAGE, 0..usize::MAX, 7..8] {
        let pages = map.huge_pages_in(range.clone());
        assert!(pages.is_empty() || range.start <= pages.start && pages.end <= range.end.min(bytes.len()));
        for at in [pages.start, pages.end].into_iter().filter(|_| !pages.is_empty()) {
            assert!((map.as_ptr() as usize + at).is_multiple_of(HUGE_PAGE), "{range:?}");
        }
        let at_most_cut = 2 * HUGE_PAGE;
        assert!(pages.len() + at_most_cut > range.end.min(bytes.len()) - range.start, "{range:?}: {pages:?}");
    }
    assert!(map.huge_pages_in(usize::MAX..usize::MAX).is_empty());
    assert!(map.copy(0..1).is_err() && map.collapse(0..1).is_err(), "there is no large page in a byte");
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Whether a program may have large pages here.
    fn has_huge_pages() -> bool {
        let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let has = !enabled.is_empty() && !enabled.contains("[never]");
        if !has {
            eprintln!("not tested: this system has no large pages");
        }
        has
    }

    /// What the system says of the memory that begins at `start`: kilobytes in large pages of no file.
    fn anonymous_huge_kilobytes(start: usize) -> u64 {
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let line = lines.find(|line| line.starts_with("AnonHugePages:")).expect("a map begins there");
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// `COPIED` is of the process: tests that look at it run one after another.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    #[cfg_attr(miri, ignore = "memory of the system")]
    fn a_copy_has_the_same_bytes_at_the_same_address_for_who_reads_them_meanwhile() {
        let _alone = ALONE.lock();
        let (map, bytes) = sample();
        let (address, before) = (map.as_ptr(), copied_file_bytes());
        let pages = map.huge_pages_in(0..bytes.len());
        let done = AtomicBool::new(false);
        let copied = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut passes = 0;
                while !done.load(Ordering::Relaxed) || passes < 2 {
                    assert!(map[..] == bytes[..], "pass {passes}");
                    passes += 1;
                }
            });
            let halves = [pages.start..pages.start + 2 * HUGE_PAGE, pages.start + 2 * HUGE_PAGE..pages.end];
            let copied = halves.map(|half| map.copy(half));
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
            copied
        });
        assert!(map[..] == bytes[..] && map.as_ptr() == address);
        if has_huge_pages() {
            let [first, second] = copied.map(Result::unwrap);
            assert_eq!(first + second, pages.len() as u64, "all of them are large");
            let kilobytes = anonymous_huge_kilobytes(address as usize + pages.start);
            assert_eq!(kilobytes * 1024, 2 * HUGE_PAGE as u64);
            assert_eq!(copied_file_bytes() - before, pages.len() as u64);
        }
        // The file's pages come back from the file; a copy would come back as zeros.
        map.release(0..bytes.len());
        assert!(map[..] == bytes[..], "released");
        drop(map);
        assert_eq!(copied_file_bytes(), before, "memory goes with its map");
    }

    #[test]
    #[cfg_attr(miri, ignore = "memory of the system")]
    fn nothing_stays_behind_where_a_map_was() {
        let _alone = ALONE.lock();
        let (map, bytes) = sample();
        let (start, pages) = (map.as_ptr() as usize, map.huge_pages_in(0..bytes.len()));
        if map.copy(pages.clone()).is_err() {
            assert!(!has_huge_pages());
            return;
        }
        drop(map);
        // Other threads map memory, too: files, as backtraces do, but none that is read only and of no file.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().find(|line| line.starts_with(&format!("{:x}-", start + pages.start)));
        assert!(found.is_none_or(|line| !line.contains("r--p 00000000 00:00 0")), "{found:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "memory of the system")]
    fn a_collapsed_file_has_the_same_bytes() {
        let (map, bytes) = sample();
        // Few systems can.
        if let Ok(huge) = map.collapse(0..bytes.len()) {
            assert_eq!(huge, map.huge_pages_in(0..bytes.len()).len() as u64);
        }
        assert!(map[..] == bytes[..]);
    }
}
