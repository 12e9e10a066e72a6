use super::*;

/// A mapped file of `len` bytes.
fn mapped(len: usize) -> Arc<FileMap> {
    let file = tempfile::tempfile().unwrap();
    file.set_len(len as u64).unwrap();
    Arc::new(FileMap::new(&file).unwrap())
}

fn cpu(threads: usize) -> Cpu {
    Cpu::with_threads(qsf_cpu::Isa::SCALAR, threads).unwrap()
}

/// All matrices of a file, as a model has them: one behind another, with a little between.
fn places(map: &Arc<FileMap>) -> Vec<(Arc<FileMap>, Range<usize>)> {
    let step = 3 << 20;
    (0..map.len() / step).rev().map(|i| (map.clone(), i * step + 64..(i + 1) * step - 64)).collect()
}

fn total(pages: &HugePages) -> usize {
    pages.parts.iter().map(|(_, range)| range.len()).sum()
}

#[test]
fn parts_are_all_large_pages_of_the_weights_each_once() {
    let (map, other) = (mapped(100 << 20), mapped(10 << 20));
    let mut all = places(&map);
    all.extend(places(&other));
    // A tied head, or an expert of a stack.
    all.extend(places(&map).into_iter().take(5));
    let parts = parts(all);
    let in_map: Vec<_> =
        parts.iter().filter(|(of, _)| Arc::ptr_eq(of, &map)).map(|(_, range)| range.clone()).collect();
    let whole = map.huge_pages_in(64..99 << 20);
    assert_eq!((in_map[0].start, in_map.last().unwrap().end), (whole.start, whole.end));
    assert!(in_map.windows(2).all(|pair| pair[0].end == pair[1].start), "{in_map:?}");
    assert!(in_map.iter().all(|range| range.len() <= PART), "{in_map:?}");
    assert!(parts.len() > in_map.len(), "the other file has some, too");
    // Far apart: what is between is no weight of the model.
    let apart = vec![(map.clone(), 0..8 << 20), (map.clone(), 40 << 20..48 << 20)];
    assert!(super::parts(apart).iter().map(|(_, range)| range.len()).sum::<usize>() <= 16 << 20);
}

#[test]
fn small_models_are_left_alone() {
    let map = mapped(LEAST_BYTES / 2);
    let pages = HugePages::new(places(&map));
    pages.finish(&cpu(1));
    assert_eq!((total(&pages), pages.bytes()), (0, 0));
    let map = mapped(2 * LEAST_BYTES);
    assert!(total(&HugePages::new(places(&map))) > LEAST_BYTES);
}

#[test]
fn weights_move_in_a_long_answer_only_and_then_all_of_them_in_parts() {
    for threads in [1, 2] {
        let (map, cpu) = (mapped(20 * PART), cpu(threads));
        let pages = HugePages::new(places(&map));
        assert!(pages.before_step(MOST_TOKENS + 1).is_none() && pages.before_step(1).is_some());
        pages.after_step(None, &cpu);
        for _ in 0..WAIT {
            pages.after(Duration::from_secs(1), &cpu);
        }
        assert_eq!((pages.bytes(), pages.way.get()), (0, None), "a prompt and a short answer pay nothing");
        pages.after(Duration::from_secs(1), &cpu);
        if pages.way.get() == Some(&None) || !has_room(total(&pages) as u64) {
            eprintln!("not tested: this system has no large pages, or no memory for them");
            return;
        }
        let first = pages.bytes() as usize;
        assert!((1..=threads * PART).contains(&first), "{first}: a part of each thread at a time");
        for _ in 0..SPREAD {
            pages.after(Duration::from_secs(1), &cpu);
        }
        assert!(pages.before_step(1).is_none(), "done");
        assert_eq!(pages.bytes() as usize, total(&pages));
        assert!(map.iter().all(|byte| *byte == 0));
        pages.finish(&cpu);
        assert_eq!(pages.bytes() as usize, total(&pages), "once");
    }
}

#[test]
fn parts_take_a_sixteenth_of_the_time_of_steps() {
    let (map, cpu) = (mapped(20 * PART), cpu(1));
    let pages = HugePages::new(places(&map));
    for _ in 0..WAIT {
        pages.after(Duration::ZERO, &cpu);
    }
    add_time(&pages.in_parts, Duration::from_secs(1));
    for _ in 0..15 {
        pages.after(Duration::from_secs(1), &cpu);
    }
    assert_eq!((pages.bytes(), pages.way.get()), (0, None), "15 seconds");
    pages.after(Duration::from_secs(1), &cpu);
    assert!(pages.way.get().is_some(), "16 seconds");
}

#[test]
fn a_copy_fits_where_it_leaves_memory_to_others() {
    const GIB: u64 = 1 << 30;
    // Of a machine with 10 GiB: 1 GiB is everybody's, and a tenth of all.
    assert!(fits(GIB, Some(3 * GIB), Some(10 * GIB)));
    assert!(!fits(GIB, Some(3 * GIB - 1), Some(10 * GIB)));
    assert!(!fits(u64::MAX - GIB, Some(u64::MAX - 1), Some(GIB)));
    assert!(!fits(1, None, Some(GIB)) && !fits(1, Some(u64::MAX), None), "a system that does not say");
}

#[test]
fn nothing_is_copied_without_memory_to_spare() {
    let (map, cpu) = (mapped(2 * LEAST_BYTES), cpu(1));
    let pages = HugePages::new(places(&map));
    pages.way.set(Some(Way::Copy)).unwrap();
    let asked = AtomicU64::new(0);
    let refuse = |bytes| {
        asked.fetch_add(bytes, Ordering::Relaxed);
        false
    };
    pages.advance(&cpu, 1, &refuse);
    assert_eq!((pages.bytes(), asked.load(Ordering::Relaxed)), (0, total(&pages) as u64));
    assert!(pages.before_step(1).is_none(), "and it is not tried again");
    if system_has_huge_pages() {
        // Pages of the system's cache take none.
        assert_eq!(
            (Way::of_system(|| true), Way::of_system(|| false)),
            (Some(Way::Collapse), Some(Way::Copy))
        );
    }
}

#[test]
fn where_the_system_has_no_large_pages_all_stays_as_it_is() {
    let (map, cpu) = (mapped(2 * LEAST_BYTES), cpu(1));
    let pages = HugePages::new(places(&map));
    pages.way.set(None).unwrap();
    pages.finish(&cpu);
    assert_eq!(pages.bytes(), 0);
    assert!(pages.before_step(1).is_none());
}
