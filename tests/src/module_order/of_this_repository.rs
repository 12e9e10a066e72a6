//! The order of modules in docs/architecture.md: what is imported runs downwards in it, in every crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::order::{Order, orders_of};
use super::source_crate::{Import, SourceCrate};

/// Whose modules must have an order. Of a crate that is not listed here, only its place among the crates is looked at.
const ORDERED: [&str; 7] =
    ["qsf-format", "qsf-cpu", "qsf-runtime", "qsf-calibration", "qsf-converter", "qsf-inspection", "qsf-cli"];
/// Whose files must not import each other in a circle, however far down.
const WITHOUT_CIRCLES: [&str; 7] =
    ["qsf-format", "qsf-cpu", "qsf-runtime", "qsf-calibration", "qsf-converter", "qsf-inspection", "qsf-cli"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn orders() -> Vec<Order> {
    let orders = orders_of(&fs::read_to_string(root().join("docs/architecture.md")).unwrap());
    assert!(!orders.is_empty(), "docs/architecture.md has no block of order");
    orders
}

/// The crates of the repository by name, with the folders of their sources.
fn crates() -> BTreeMap<String, PathBuf> {
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(root()).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        crates.insert(name.unwrap().to_owned(), folder.join("src"));
    }
    crates
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "against docs/architecture.md:\n{}", complaints.join("\n"));
}

#[test]
fn modules_import_only_what_stands_below_them_and_all_of_them_are_in_the_order() {
    let (orders, crates) = (orders(), crates());
    let mut complaints = Vec::new();
    for scope in ORDERED.iter().filter(|scope| crates.contains_key(scope.split("::").next().unwrap())) {
        if !orders.iter().any(|order| order.scope() == *scope) {
            complaints.push(format!("{scope}: no order"));
        }
    }
    for order in orders.iter().filter(|order| order.of != "crates") {
        let Some(folder) = crates.get(&order.of) else {
            complaints.push(format!("{}: no such crate", order.of));
            continue;
        };
        let sources = SourceCrate::read(folder);
        complaints.extend(order.misnamed(&sources.inside(&order.folder)));
        complaints.extend(order.broken_by(&sources));
    }
    assert_none(&complaints);
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let crates = crates();
    let looked_at = crates.iter().filter(|(name, _)| WITHOUT_CIRCLES.contains(&name.as_str()));
    let mut complaints = Vec::new();
    for (name, folder) in looked_at {
        for Import { file, to, name: what, .. } in SourceCrate::read(folder).circles() {
            complaints.push(format!("{name}: {file} takes {what} from {}", to.join("::")));
        }
    }
    assert_none(&complaints);
}

#[test]
fn crates_use_only_those_below_them_and_all_of_them_are_in_the_order() {
    let (orders, crates) = (orders(), crates());
    let order = orders.iter().find(|order| order.of == "crates").unwrap();
    let names: Vec<&str> = crates.keys().map(String::as_str).collect();
    let mut complaints = order.misnamed(&names);
    let in_code: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
    for (upper, folder) in &crates {
        // Programs of a crate take from its library.
        let others: Vec<&str> = in_code.iter().map(String::as_str).collect();
        for (lower, file) in SourceCrate::read(folder).mentioned(&others) {
            let lower = lower.replace('_', "-");
            if *upper != lower && !order.allows(upper, &lower) {
                complaints.push(format!("{upper}: {file}: takes from {lower}, which is not below it"));
            }
        }
    }
    assert_none(&complaints);
}
