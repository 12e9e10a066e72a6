//! What becomes of tensors whose sizes, offsets, strides and storages fit, and of those that lie.

use super::*;

type View<'a> = (i64, &'a [i64], &'a [i64]);

/// A file with tensor `w` on storage `0`, 24 bytes.
fn w(class: &str, count: i64, view: View) -> Result<Vec<PickledTensor>> {
    open_pickle(&Pickle::of_dict(&[("w", &|pickle| pickle.tensor(class, "0", count, view))]))
}

/// The part of the storage that a tensor has.
fn part(class: &str, count: i64, view: View) -> (Dtype, Vec<usize>, std::ops::Range<usize>) {
    let tensors = w(class, count, view).unwrap();
    let file =
        Zip::of_checkpoint(&Pickle::of_dict(&[("w", &|p| p.tensor(class, "0", count, view))]).0).bytes();
    let start = file.windows(24).position(|window| window.iter().copied().eq(0..24)).unwrap();
    let [tensor] = &tensors[..] else { panic!("{tensors:?}") };
    (tensor.dtype, tensor.shape.clone(), tensor.range.start - start..tensor.range.end - start)
}

#[test]
fn views_that_lie_row_by_row_are_used_in_place() {
    assert_eq!(part("FloatStorage", 6, (0, &[2, 3], &[3, 1])), (Dtype::F32, vec![2, 3], 0..24));
    assert_eq!(part("FloatStorage", 6, (3, &[1, 3], &[3, 1])), (Dtype::F32, vec![1, 3], 12..24));
    assert_eq!(part("FloatStorage", 6, (5, &[], &[])), (Dtype::F32, vec![], 20..24));
    assert_eq!(part("HalfStorage", 12, (2, &[2, 1, 4], &[4, 77, 1])), (Dtype::F16, vec![2, 1, 4], 4..20));
    assert_eq!(part("FloatStorage", 6, (9, &[0, 5], &[5, 1])), (Dtype::F32, vec![0, 5], 0..0));
    // A storage may have fewer values than its entry has room for.
    assert_eq!(part("DoubleStorage", 2, (1, &[1], &[1])), (Dtype::F64, vec![1], 8..16));
}

#[test]
fn every_storage_class_has_its_type() {
    for (class, dtype, count) in [
        ("DoubleStorage", Dtype::F64, 3),
        ("FloatStorage", Dtype::F32, 6),
        ("HalfStorage", Dtype::F16, 12),
        ("BFloat16Storage", Dtype::BF16, 12),
        ("LongStorage", Dtype::I64, 3),
        ("IntStorage", Dtype::I32, 6),
        ("ShortStorage", Dtype::I16, 12),
        ("CharStorage", Dtype::I8, 24),
        ("ByteStorage", Dtype::U8, 24),
        ("BoolStorage", Dtype::BOOL, 24),
        ("ComplexFloatStorage", Dtype::C64, 3),
    ] {
        assert_eq!(part(class, count, (0, &[count], &[1])), (dtype, vec![count as usize], 0..24));
    }
}

#[test]
fn a_layout_other_than_row_by_row_is_refused_by_the_name_of_the_tensor() {
    for (size, strides) in [(&[3, 2][..], &[1, 3][..]), (&[2, 2], &[3, 1]), (&[6], &[0]), (&[2], &[2])] {
        let message = refusal(w("FloatStorage", 6, (0, size, strides)), Failure::Unsupported);
        assert_says(&message, &["tensor \"w\"", "row by row", "tensor.contiguous()"]);
    }
}

#[test]
fn sizes_that_are_not_in_the_file_are_errors() {
    const MAX: i64 = i64::MAX;
    let views: [(i64, View); 19] = [
        (7, (0, &[1], &[1])),
        (MAX, (0, &[1], &[1])),
        (MAX / 4, (0, &[1], &[1])),
        (-1, (0, &[1], &[1])),
        (5, (0, &[2, 3], &[3, 1])),
        (6, (1, &[2, 3], &[3, 1])),
        (6, (6, &[], &[])),
        (6, (-1, &[1], &[1])),
        (6, (MAX, &[1], &[1])),
        (6, (MAX / 2, &[2, 3], &[3, 1])),
        (6, (0, &[7], &[1])),
        (6, (0, &[-1], &[1])),
        (6, (0, &[1], &[-1])),
        (6, (0, &[MAX], &[1])),
        (6, (0, &[1, MAX], &[MAX, 1])),
        (6, (0, &[1 << 32, 1 << 32], &[1 << 32, 1])),
        (6, (0, &[2, 3], &[3])),
        (6, (0, &[2, 3], &[])),
        (6, (0, &[1; 17], &[1; 17])),
    ];
    for (count, view) in views {
        let message = refusal(w("FloatStorage", count, view), Failure::BadInput);
        assert_says(&message, &["pytorch_model.bin: tensor \"w\": expected"]);
    }
    let elsewhere = |key: &str| {
        let view: View = (0, &[2, 3], &[3, 1]);
        open_pickle(&Pickle::of_dict(&[("w", &|pickle| pickle.tensor("FloatStorage", key, 6, view))]))
    };
    for key in ["1", "../data.pkl", "0/", ""] {
        assert_says(&refusal(elsewhere(key), Failure::BadInput), &["tensor \"w\"", "found no such entry"]);
    }
}

/// A file with a tensor `w` made by a call of this function of `torch._utils` with these arguments.
fn call(name: &str, args: &dyn Fn(Pickle) -> Pickle) -> Result<Vec<PickledTensor>> {
    let value = |pickle: Pickle| args(pickle.global("torch._utils", name).op(b"(")).op(b"tR");
    open_pickle(&Pickle::of_dict(&[("w", &value)]))
}

fn floats(pickle: Pickle) -> Pickle {
    pickle.storage("FloatStorage", "0", 6)
}

fn six_floats(pickle: Pickle) -> Pickle {
    floats(pickle).int(0).ints(&[6]).ints(&[1]).op(b"\x89}")
}

fn bytes(pickle: Pickle) -> Pickle {
    let id = pickle.op(b"(").text("storage").global("torch.storage", "UntypedStorage").text("0").text("cpu");
    id.int(24).op(b"tQ")
}

#[test]
fn calls_with_other_arguments_are_errors() {
    let (v2, v3) = ("_rebuild_tensor_v2", "_rebuild_tensor_v3");
    for result in [
        call(v2, &|p| p),
        call(v2, &|p| floats(p).int(0).ints(&[6]).ints(&[1])),
        call(v2, &|p| p.op(b"N").int(0).ints(&[6]).ints(&[1]).op(b"\x89}")),
        call(v2, &|p| floats(p).op(b"N").ints(&[6]).ints(&[1]).op(b"\x89}")),
        call(v2, &|p| floats(p).int(0).op(b"]").ints(&[1]).op(b"\x89}")),
        call(v2, &|p| floats(p).int(0).op(b"N\x85").ints(&[1]).op(b"\x89}")),
        call(v3, &six_floats),
        call(v3, &|p| six_floats(p).op(b"N")),
    ] {
        assert_says(&refusal(result, Failure::BadInput), &["tensor \"w\""]);
    }
    let no_type = call(v2, &|p| bytes(p).int(0).ints(&[6]).ints(&[1]).op(b"\x89}"));
    assert_says(&refusal(no_type, Failure::BadInput), &["a type of values, found bytes"]);
    let negated = call(v2, &|p| six_floats(p).op(b"}").text("neg").op(b"\x88s"));
    assert_says(&refusal(negated, Failure::Unsupported), &["negated or conjugated"]);
    assert!(is_w(&call(v2, &|p| six_floats(p).op(b"N")).unwrap(), Dtype::F32, &[6]));
}

#[test]
fn a_tensor_on_bytes_has_the_type_of_its_call() {
    let of_u16 = |count| {
        call("_rebuild_tensor_v3", &|p| {
            bytes(p).int(1).ints(&[count]).ints(&[1]).op(b"\x89}").global("torch", "uint16")
        })
    };
    assert!(is_w(&of_u16(11).unwrap(), Dtype::U16, &[11]));
    assert_says(&refusal(of_u16(12), Failure::BadInput), &["24 bytes of U16 values"]);
}

#[test]
fn a_state_dict_is_found_bare_and_wrapped_once() {
    let weights = |pickle: Pickle| pickle.op(b"}").text("w").sound_tensor().op(b"s");
    let counter = |pickle: Pickle| pickle.int(3);
    for wrapper in ["state_dict", "model", "model_state_dict", "module"] {
        let pickle =
            Pickle::of_dict(&[("epoch", &counter), (wrapper, &weights), ("optimizer", &|p| p.op(b"}"))]);
        assert!(is_w(&open_pickle(&pickle).unwrap(), Dtype::F32, &[2, 3]), "{wrapper}");
    }
    let counted =
        Pickle::of_dict(&[("epoch", &counter), ("w", &Pickle::sound_tensor), ("x", &|p| p.op(b"N"))]);
    assert!(is_w(&open_pickle(&counted).unwrap(), Dtype::F32, &[2, 3]));
    for (pickle, says) in [
        (Pickle::of_dict(&[]), "found a dictionary without tensors"),
        (Pickle::of_dict(&[("epoch", &counter)]), "found a dictionary without tensors"),
        (Pickle::of_dict(&[("weights", &weights)]), "found a dictionary without tensors"),
        (Pickle::of_dict(&[("state_dict", &weights), ("model", &weights)]), "found several"),
        (Pickle::of_dict(&[("state_dict", &weights), ("state_dict", &weights)]), "found several"),
        (Pickle::new().op(b"]."), "found a list"),
        (Pickle::new().sound_tensor().op(b"."), "found a tensor"),
        (Pickle::of_dict(&[("w", &Pickle::sound_tensor), ("rest", &weights)]), "\"rest\": expected a tensor"),
        (
            Pickle::of_dict(&[("w", &Pickle::sound_tensor), ("w", &Pickle::sound_tensor)]),
            "tensor \"w\": expected one tensor of this name",
        ),
        (Pickle::new().op(b"}N").sound_tensor().op(b"s."), "names of tensors as keys, found None"),
    ] {
        assert_says(&refusal(open_pickle(&pickle), Failure::BadInput), &[says]);
    }
}

#[test]
fn tied_tensors_have_the_same_bytes() {
    let pickle = Pickle::of_dict(&[("embed", &Pickle::sound_tensor), ("head", &Pickle::sound_tensor)]);
    let tensors = open_pickle(&pickle).unwrap();
    assert_eq!((tensors[0].name.as_str(), tensors[1].name.as_str()), ("embed", "head"));
    assert_eq!(tensors[0].range, tensors[1].range);
}
