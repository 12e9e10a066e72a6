//! Pickles that would run something, that never end or grow, or that are no program at all.

use super::*;

/// What the machine says of a pickle that must not be read.
fn damaged(pickle: &Pickle) -> String {
    refusal(open_pickle(pickle), Failure::BadInput)
}

#[test]
fn a_pickle_that_would_run_something_is_refused_by_the_name_of_it() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("__builtin__", "exec"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch", "hub.load"),
        ("torch.storage", "_load_from_bytes"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("torch.serialization", "load"),
        ("collections", "OrderedDict.update"),
        ("runpy", "_run_code"),
    ] {
        let call = Pickle::new().global(module, name).op(b"(").text("touch /tmp/owned").op(b"tR.");
        let stacked = Pickle::new().text(module).text(name).op(b"\x93(").text("x").op(b"tR.");
        // Beside sound tensors, as an attacker would hide it.
        let value = |pickle: Pickle| pickle.global(module, name).op(b"(").text("x").op(b"tR");
        let hidden = Pickle::of_dict(&[("w", &Pickle::sound_tensor), ("x", &value)]);
        for pickle in [call, stacked, hidden] {
            let message = refusal(open_pickle(&pickle), Failure::Unsupported);
            assert_says(
                &message,
                &[&format!("{module}.{name}"), "If you trust its author", "model.safetensors"],
            );
        }
    }
}

#[test]
fn a_name_that_steers_a_terminal_is_shown_harmless() {
    let message =
        refusal(open_pickle(&Pickle::new().global("\u{1b}[2J", "\u{7}").op(b".")), Failure::Unsupported);
    assert!(!message.contains(char::is_control), "{message:?}");
}

#[test]
fn operations_that_make_objects_are_refused_by_name() {
    for (opcode, name) in [
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (b'P', "PERSID"),
        (0x97, "NEXT_BUFFER"),
        (b'2', "DUP"),
    ] {
        let pickle = Pickle::new().op(b"}").op(&[opcode]).op(b"os\nsystem\n.");
        let message = refusal(open_pickle(&pickle), Failure::Unsupported);
        assert_says(&message, &[&format!("operation {name} of a pickle"), "If you trust its author"]);
    }
    assert_says(
        &damaged(&Pickle::new().op(b"\xff.")),
        &["data.pkl, byte 2: expected an operation, found byte 0xff"],
    );
}

#[test]
fn only_functions_that_make_tensors_can_be_called() {
    let class = |name| Pickle::new().global("torch", name);
    for pickle in [
        class("FloatStorage").op(b")R."),
        class("float16").op(b")R."),
        class("Tensor").op(b")R."),
        class("Size").op(b")R."),
        class("Size").text("x").op(b"\x85R."),
        class("Size").op(b"NR."),
        Pickle::new().text("os.system").op(b")R."),
        Pickle::new().global("collections", "OrderedDict").op(b"]\x85R."),
        Pickle::new().global("torch._utils", "_rebuild_parameter").op(b")R."),
        Pickle::new().global("torch._utils", "_rebuild_parameter").op(b"N\x85R."),
        // A function, as the class of a tensor with attributes, that is no class; a call of itself.
        Pickle::new()
            .global("torch._tensor", "_rebuild_from_type_v2")
            .op(b"(")
            .global("torch._utils", "_rebuild_tensor_v2")
            .global("torch", "Size")
            .op(b")}tR."),
        Pickle::new()
            .global("torch._tensor", "_rebuild_from_type_v2")
            .op(b"(")
            .global("torch._tensor", "_rebuild_from_type_v2")
            .global("torch", "Tensor")
            .op(b")}tR."),
    ] {
        assert_says(&damaged(&pickle), &["data.pkl, byte", "expected a"]);
    }
}

#[test]
fn the_only_state_that_can_be_set_is_the_metadata_of_a_state_dict() {
    let metadata = |key| Pickle::new().op(b"}").text("w").sound_tensor().op(b"s}").text(key).op(b"}sb.");
    assert!(is_w(&open_pickle(&metadata("_metadata")).unwrap(), Dtype::F32, &[2, 3]));
    assert_says(&damaged(&metadata("__class__")), &["no state but _metadata"]);
    let two = Pickle::new().op(b"}}").text("_metadata").op(b"}s").text("x").op(b"Nsb.");
    for pickle in [two, Pickle::new().op(b"}Nb."), Pickle::new().op(b"}}b."), Pickle::new().op(b"]}b.")] {
        damaged(&pickle);
    }
}

#[test]
fn programs_that_do_not_fit_their_stack_are_errors() {
    for program in [
        &b"."[..],
        b"N",
        b"NN.",
        b"(N.",
        b"(.",
        b"t.",
        b"\x85.",
        b"(\x85.",
        b"N(\x85.",
        b"s.",
        b"}(s.",
        b"}NN(s.",
        b"}(Nu.",
        b"(u.",
        b"NNNs.",
        b"]NNs.",
        b"a.",
        b"}Na.",
        b"(e.",
        b"}(e.",
        b"h\0.",
        b"j\0\0\0\0.",
        b"Nq\x01.",
        b"Nr\xff\xff\xff\xff.",
        b"\x94.",
        b"q\0.",
        b"R.",
        b")R.",
        b"b.",
        b"}b.",
        b"Q.",
        b"NQ.",
        b")Q.",
        b"\x93.",
        b"NN\x93.",
        b"N.N",
        b"\x80\x02N.",
        b"",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
        b"\x95\x03\0\0\0\0\0\0\0N.",
        b"X\xff\xff\xff\xff",
        b"X\x01\0\0\0\xff.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8c\x05abc.",
        b"\x8e\0\0\0\0\0\0\0\x80",
        b"B\xff\xff\xff\x7f",
        b"C\x01",
        b"c",
        b"cos",
        b"cos\nsystem",
        b"c\xff\n\xff\n.",
        b"\x8a",
        b"\x8a\x02\0",
        b"K",
        b"M\0",
        b"J\0\0\0",
        b"G\0\0\0\0\0\0\0",
    ] {
        damaged(&Pickle::new().op(program));
    }
    for beginning in [&b""[..], b"\x80", b"}.", b"\x80\x01}.", b"\x80\x06}.", b"\x80\xff}."] {
        damaged(&Pickle(beginning.to_vec()));
    }
}

#[test]
fn a_storage_needs_the_id_that_torch_gives_it() {
    let id = |kind: &str, class: (&str, &str), count: &[u8]| {
        let id = Pickle::new().op(b"(").text(kind).global(class.0, class.1).text("0").text("cpu");
        id.op(count).op(b"tQ.")
    };
    let float = ("torch", "FloatStorage");
    assert_says(&damaged(&id("storage", float, b"K\x06")), &["a state dict", "found a storage"]);
    for pickle in [
        id("module", float, b"K\x06"),
        id("storage", ("torch", "float32"), b"K\x06"),
        id("storage", ("torch", "Size"), b"K\x06"),
        id("storage", float, b"N"),
        id("storage", float, b"K\x06N"),
        id("storage", float, b""),
    ] {
        assert_says(&damaged(&pickle), &["expected the id of a storage, found a tuple"]);
    }
}

#[test]
fn deep_nesting_takes_no_stack_of_the_processor() {
    const DEEP: usize = 400_000;
    let weights = |pickle: Pickle| pickle.op(b"}").text("w").sound_tensor().op(b"s");
    let beside = |open: &[u8], inner: &[u8], close: &[u8]| {
        let nested = [&open.repeat(DEEP), inner, &close.repeat(DEEP)].concat();
        let value = |pickle: Pickle| pickle.op(&nested);
        open_pickle(&Pickle::of_dict(&[("state_dict", &weights), ("x", &value)]))
    };
    assert!(is_w(&beside(b"]", b"N", b"a").unwrap(), Dtype::F32, &[2, 3]), "lists");
    assert!(is_w(&beside(b"", b"N", b"\x85").unwrap(), Dtype::F32, &[2, 3]), "tuples");
    assert!(is_w(&beside(b"(", b"", b"t").unwrap(), Dtype::F32, &[2, 3]), "marks");
    assert_says(&refusal(beside(b"}N", b"N", b"s"), Failure::BadInput), &["at most", "values"]);
}

#[test]
fn a_pickle_that_contains_itself_ends() {
    // A dictionary that is its own value and its own wrapper.
    let own = Pickle::new().op(b"}q\0").text("state_dict").op(b"h\0s").text("w").sound_tensor().op(b"s.");
    assert_says(&damaged(&own), &["\"state_dict\": expected a tensor, found a dictionary"]);
    // A billion laughs: each tuple has the one before twice.
    let laughs = [&b"(Nq\0"[..], &b"h\0h\0\x86q\0".repeat(1000), b"t"].concat();
    let value = move |pickle: Pickle| pickle.op(&laughs);
    let pickle = Pickle::of_dict(&[("x", &value), ("w", &Pickle::sound_tensor)]);
    assert_says(&damaged(&pickle), &["\"x\": expected a tensor, found a tuple of 1001"]);
}

#[test]
fn values_without_end_are_an_error_and_not_all_of_memory() {
    for endless in [&b"N"[..], b"(", b"]", b"}", b"\x94", b")\x85", b"X\0\0\0\0"] {
        let pickle = Pickle::new().op(b"}N").op(&endless.repeat(600_000));
        assert_says(&damaged(&pickle), &["at most 5", "values, found more"]);
    }
}
