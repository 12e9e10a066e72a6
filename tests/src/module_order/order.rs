//! The order as it is written down, and what runs against it.

use super::source_crate::{Import, SourceCrate};

/// The order of the modules of a crate, or of a folder in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The crate; `crates` for the order of these themselves.
    pub of: String,
    /// The folder, from the root of the crate.
    pub folder: Vec<String>,
    /// From the uppermost: each may import from those below it only.
    pub layers: Vec<Vec<String>>,
}

/// What a block begins with; the crate follows, and perhaps `::` and a folder.
const FENCE: &str = "```order ";

/// The orders in a text: in blocks between fences, a layer on each line.
pub fn orders_of(markdown: &str) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::new();
    let mut open = false;
    for line in markdown.lines() {
        if let Some(scope) = line.strip_prefix(FENCE) {
            let mut names = scope.trim().split("::").map(str::to_owned);
            let of = names.next().unwrap_or_default();
            orders.push(Order { of, folder: names.collect(), layers: Vec::new() });
            open = true;
        } else if line.starts_with("```") {
            open = false;
        } else if let Some(order) = orders.last_mut().filter(|_| open && !line.trim().is_empty()) {
            order.layers.push(line.split_whitespace().map(str::to_owned).collect());
        }
    }
    orders
}

impl Order {
    /// What `found` has and this has not, what this has and `found` has not, and what is here twice.
    pub fn misnamed(&self, found: &[&str]) -> Vec<String> {
        let scope = self.scope();
        let mut listed: Vec<&str> = self.layers.iter().flatten().map(String::as_str).collect();
        listed.sort_unstable();
        let missing = found.iter().filter(|name| !listed.contains(name));
        let gone = listed.iter().filter(|name| !found.contains(name));
        let twice = listed.windows(2).filter(|pair| pair[0] == pair[1]);
        missing
            .map(|name| format!("{scope}: {name} is not in the order"))
            .chain(gone.map(|name| format!("{scope}: {name} is in the order and does not exist")))
            .chain(twice.map(|pair| format!("{scope}: {} is in the order twice", pair[0])))
            .collect()
    }

    /// Whether `upper` may take something from `lower`. Of names that are not here [`Order::misnamed`] speaks.
    pub fn allows(&self, upper: &str, lower: &str) -> bool {
        let line = |name: &str| self.layers.iter().position(|layer| layer.iter().any(|known| known == name));
        line(upper).zip(line(lower)).is_none_or(|(upper, lower)| upper < lower)
    }

    /// Every import in `sources` that runs against this order.
    pub fn broken_by(&self, sources: &SourceCrate) -> Vec<String> {
        sources.imports().iter().filter_map(|import| self.complaint(import)).collect()
    }

    fn complaint(&self, import: &Import) -> Option<String> {
        let Import { from, to, name, file } = import;
        let (scope, depth) = (self.scope(), self.folder.len());
        if !from.starts_with(&self.folder) || !to.starts_with(&self.folder) {
            return None;
        }
        let upper = from.get(depth)?;
        match to.get(depth) {
            Some(lower) if lower == upper || self.allows(upper, lower) => None,
            Some(lower) => {
                Some(format!("{scope}: {file}: {upper} takes {name} from {lower}, which is not below it"))
            }
            None => Some(format!(
                "{scope}: {file}: {upper} takes {name} from the root of all: give that a file of its own"
            )),
        }
    }

    /// The crate and the folder, as in the first line of the block.
    pub fn scope(&self) -> String {
        let mut scope = self.of.clone();
        for name in &self.folder {
            scope += "::";
            scope += name;
        }
        scope
    }
}
