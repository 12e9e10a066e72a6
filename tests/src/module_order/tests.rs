use super::order::orders_of;
use super::source_crate::SourceCrate;

/// A crate of these files.
fn sources(files: &[(&str, &str)]) -> SourceCrate {
    SourceCrate::new(&|file| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned()))
}

/// What runs against the order `upper` above `lower`, where these files are those two modules.
fn complaints(upper: &str, lower: &str) -> Vec<String> {
    let root = "mod upper; mod lower; pub use lower::Low;";
    let files = [("lib.rs", root), ("upper.rs", upper), ("lower.rs", lower)];
    orders_of("```order made-up\nupper\nlower\n```\n")[0].broken_by(&sources(&files))
}

#[test]
fn an_import_that_runs_upwards_is_named_however_it_is_written() {
    for text in [
        "use crate::upper::High;",
        "use super::upper::High;",
        "use crate::{upper::High, other};",
        "use crate::{self, upper::{inner::Deep, High as Other}};",
        "pub(crate) use crate::upper::*;",
        "use crate::upper; fn f() { upper::high() }",
        "fn f() { let x = crate::upper::High::new(); }",
        "fn f(x: &super::upper::High) {}",
        "mod inline { use super::super::upper::High; }",
        "mod inline { fn f() {} } fn g() { super::upper::g() }",
        "#[cfg(any(test, unix))] use crate::upper::High;",
        "#[cfg(test)] use crate::other::Other; use crate::upper::High;",
        "#[cfg(test)] fn f() -> [u8; 1] { [0] } use crate::upper::High;",
        "macro_rules! m { () => { $crate::upper::High } }",
        "const C: char = '\"'; use crate::upper::High; const D: char = '\"';",
        "const A: &[u8] = b\"\\\"\"; const B: char = '\\''; use crate::upper::High;",
        "fn f<'a>(x: &'a str) -> &'a str { crate::upper::g(x) }",
    ] {
        let found = complaints("use crate::lower::Low;", text);
        let named =
            found.iter().any(|line| line.contains("lower.rs: lower takes") && line.contains("from upper"));
        assert!(named, "{text}: {found:?}");
    }
}

#[test]
fn imports_downwards_and_what_stands_in_tests_comments_and_texts_is_free() {
    for text in [
        "use std::upper::High; use upper_crate::High;",
        "// use crate::upper::High;\n/* crate::upper::x /* nested */ crate::upper::y */ //! [x](crate::upper::x)",
        "const A: &str = \"crate::upper::High\"; const B: &str = r#\"\"crate::upper::High\"#;",
        "#[cfg(test)] mod tests { use crate::upper::High; fn f() { crate::upper::g() } }",
        "#[cfg(test)] use crate::upper::{High, Higher};",
        "#[cfg(test)] #[allow(unused)] fn f<A, B>(a: A, b: B) { crate::upper::g() } fn g() {}",
        "struct S { #[cfg(test)] x: crate::upper::High, y: u8 }",
        "#[cfg(all(test, unix))] mod tests { use crate::upper::High; }",
        "pub(in crate::upper) fn f() {} pub(super) struct S(pub(in crate::upper) u8);",
        "use super::Low as L; use self::inner::X; mod inner { pub struct X; }",
        "crate::a_macro! { crate::lower::Low }",
    ] {
        assert_eq!(complaints("use crate::lower::Low;", text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_name_that_another_module_hands_on_is_taken_from_where_it_is() {
    let files = [
        ("lib.rs", "mod upper; mod lower; pub use upper::High; pub use lower::Low; struct Own;"),
        ("upper/mod.rs", "mod deep; pub use deep::High;"),
        ("upper/deep.rs", "use crate::Low;"),
        ("lower.rs", "use crate::High; use crate::Own;"),
    ];
    let order = &orders_of("```order made-up\nupper\nlower\n```")[0];
    let found = order.broken_by(&sources(&files));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("lower takes Own from the root"), "{found:?}");
    assert!(found[1].contains("lower takes High from upper"), "{found:?}");
}

#[test]
fn modules_of_one_line_may_not_import_each_other_and_a_folder_has_an_order_of_its_own() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; mod y; mod z;"),
        ("a/x.rs", "use super::y::Y;"),
        ("a/y.rs", "use super::x::X; use crate::b::B;"),
        ("a/z.rs", ""),
        ("b.rs", ""),
    ];
    let sources = sources(&files);
    let orders = orders_of("text\n\n```order made-up\na b\n```\nmore\n```order made-up::a\nx\ny z\n```\n");
    assert_eq!(orders[1].scope(), "made-up::a");
    let whole = orders[0].broken_by(&sources);
    assert!(matches!(&whole[..], [one] if one.contains("a takes B from b")), "{whole:?}");
    let folder = orders[1].broken_by(&sources);
    assert!(matches!(&folder[..], [one] if one.contains("y takes X from x")), "{folder:?}");
}

#[test]
fn files_that_import_each_other_in_a_circle_are_named_and_no_others() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod above; mod below; mod folder; pub use a::A;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::A; use crate::below::Below;"),
        ("above.rs", "use crate::A;"),
        ("below.rs", ""),
        ("folder/mod.rs", "mod inner; pub use inner::Inner; struct Own;"),
        ("folder/inner.rs", "use crate::below::Below;"),
    ];
    let mut circle: Vec<String> = sources(&files).circles().into_iter().map(|import| import.file).collect();
    circle.dedup();
    assert_eq!(circle, ["a.rs", "b.rs", "c.rs"]);
    let with_own = files.map(|(file, text)| {
        (
            file,
            if file == "folder/inner.rs" {
                "use super::Own;"
            } else if file == "folder/mod.rs" {
                "mod inner; use inner::Inner; struct Own;"
            } else {
                text
            },
        )
    });
    assert!(sources(&with_own).circles().iter().any(|import| import.file == "folder/mod.rs"));
}

#[test]
fn modules_that_are_missing_in_the_order_or_gone_or_there_twice_are_named() {
    let order = &orders_of("```order made-up\na gone\na\n```")[0];
    let root = "mod a; mod b; #[cfg(test)] mod tests;";
    let sources = sources(&[("lib.rs", root), ("a.rs", ""), ("b.rs", ""), ("tests.rs", "")]);
    let found = order.misnamed(&sources.inside(&[]));
    let expected =
        ["b is not in the order", "gone is in the order and does not exist", "a is in the order twice"];
    assert_eq!(found, expected.map(|line| format!("made-up: {line}")));
}

#[test]
fn other_crates_are_found_in_imports_and_in_the_code() {
    let root = "use qsf_format::Layout; fn f() { qsf_runtime::g(); my_qsf_converter::h() }";
    let found = sources(&[("lib.rs", root)]).mentioned(&["qsf_format", "qsf_runtime", "qsf_converter"]);
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["qsf_format", "qsf_runtime"]);
}
