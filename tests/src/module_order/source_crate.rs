//! The files of a crate, and which of them takes what from which.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use super::source_file::{Path, SourceFile, Use};

/// A crate as its sources are, without tests.
#[derive(Debug)]
pub struct SourceCrate {
    /// By the path of the module; that of the root is empty.
    modules: BTreeMap<Path, Module>,
}

#[derive(Debug)]
struct Module {
    /// Where it is, from the folder of the root file.
    file: String,
    source: SourceFile,
}

/// A file takes something from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The module that takes.
    pub from: Vec<String>,
    /// The module that has it.
    pub to: Vec<String>,
    /// What is taken.
    pub name: String,
    /// The file of the module that takes.
    pub file: String,
}

/// Re-exports of re-exports that are followed.
const MOST_STEPS: usize = 10;

impl SourceCrate {
    /// The crate whose sources are in `folder`.
    pub fn read(folder: &std::path::Path) -> SourceCrate {
        SourceCrate::new(&|file| fs::read_to_string(folder.join(file)).ok())
    }

    /// A crate whose files are what `text` gives; `None`: there is no such file.
    pub fn new(text: &dyn Fn(&str) -> Option<String>) -> SourceCrate {
        let mut found = SourceCrate { modules: BTreeMap::new() };
        let root = if text("lib.rs").is_some() { "lib.rs" } else { "main.rs" };
        found.add(Path::new(), root, "", text);
        found
    }

    /// Adds the module in `file`, whose own modules are in `folder`, and these.
    fn add(&mut self, path: Path, file: &str, folder: &str, text: &dyn Fn(&str) -> Option<String>) {
        let Some(content) = text(file) else { return };
        let source = SourceFile::parse(&content);
        for name in &source.modules {
            let inner = format!("{folder}{name}/");
            let alone = format!("{folder}{name}.rs");
            let file = if text(&alone).is_some() { alone } else { format!("{inner}mod.rs") };
            self.add([&path[..], std::slice::from_ref(name)].concat(), &file, &inner, text);
        }
        self.modules.insert(path, Module { file: file.to_owned(), source });
    }

    /// The modules directly inside of the folder `scope`.
    pub fn inside(&self, scope: &[String]) -> Vec<&str> {
        let direct = |path: &&Path| path.len() == scope.len() + 1 && path.starts_with(scope);
        self.modules.keys().filter(direct).filter_map(|path| path.last().map(String::as_str)).collect()
    }

    /// Everything that a file takes from another one of the crate. Handing on what a module's own folder has is not counted.
    pub fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (from, module) in &self.modules {
            let mut add = |to: &Path, name: String, hands_on: bool| {
                if to != from && !(hands_on && to.starts_with(from)) {
                    imports.push(Import {
                        from: from.clone(),
                        to: to.clone(),
                        name,
                        file: module.file.clone(),
                    });
                }
            };
            for used in &module.source.uses {
                if let Some(path) = self.absolute(from, &used.inside, &used.path) {
                    add(self.resolve(&path, 0), used.name.clone(), used.public);
                }
            }
            for (inside, path) in &module.source.mentions {
                if let Some(absolute) = self.absolute(from, inside, path) {
                    add(self.resolve(&absolute, 0), path.join("::"), false);
                }
            }
        }
        imports.sort();
        imports.dedup();
        imports
    }

    /// The imports among files that import each other in a circle.
    pub fn circles(&self) -> Vec<Import> {
        let imports = self.imports();
        let mut taken: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
        for import in &imports {
            taken.entry(&import.from).or_default().push(&import.to);
        }
        let leads_back = |import: &&Import| {
            let (mut seen, mut next) = (HashSet::new(), vec![&import.to]);
            while let Some(module) = next.pop() {
                if *module == import.from {
                    return true;
                }
                if seen.insert(module) {
                    next.extend(taken.get(module).into_iter().flatten());
                }
            }
            false
        };
        imports.iter().filter(leads_back).cloned().collect()
    }

    /// Those of `crates` that paths of this one begin with, and the files where they do.
    pub fn mentioned<'a>(&self, crates: &[&'a str]) -> Vec<(&'a str, String)> {
        let mut found = Vec::new();
        for module in self.modules.values() {
            let uses = module.source.uses.iter().map(|used| &used.path);
            for path in uses.chain(module.source.mentions.iter().map(|(_, path)| path)) {
                let name = crates.iter().find(|name| path.first().is_some_and(|first| first == *name));
                found.extend(name.map(|name| (*name, module.file.clone())));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// A path in `module` from the root of the crate; `None`: it leads elsewhere.
    fn absolute(&self, module: &Path, inside: &Path, path: &[String]) -> Option<Path> {
        let mut base = [&module[..], &inside[..]].concat();
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "super" | "self" => {
                let steps = path.iter().take_while(|name| *name == "super" || *name == "self");
                let (steps, ups) = (steps.clone().count(), steps.filter(|name| *name == "super").count());
                base.truncate(base.len().saturating_sub(ups));
                return Some([&base[..], &path[steps..]].concat());
            }
            _ => base.push(path[0].clone()),
        }
        if self.modules.contains_key(&base) {
            return Some([&base[..], &path[1..]].concat());
        }
        // A name that was brought in, unless it is that of another crate.
        let used = self.used(module, &path[0]).filter(|used| used.path.first() != path.first())?;
        let absolute = self.absolute(module, &used.inside, &used.path)?;
        Some([&absolute[..], &path[1..]].concat())
    }

    fn used(&self, module: &Path, name: &str) -> Option<&Use> {
        self.modules.get(module)?.source.uses.iter().find(|used| used.name == name)
    }

    /// The module that has what is at `path`.
    fn resolve(&self, path: &[String], steps: usize) -> &Path {
        let known =
            (0..=path.len()).rev().find_map(|len| Some((len, self.modules.get_key_value(&path[..len])?)));
        let Some((len, (module, _))) = known else { unreachable!("the root is a module") };
        let handed_on = || {
            let used = self.used(module, path.get(len)?)?;
            let absolute = self.absolute(module, &used.inside, &used.path)?;
            Some([&absolute[..], &path[len + 1..]].concat())
        };
        match handed_on().filter(|_| steps < MOST_STEPS) {
            Some(path) => self.resolve(&path, steps + 1),
            None => module,
        }
    }
}
