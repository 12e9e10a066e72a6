//! What a file declares, imports and mentions; code that is there for tests only is passed over.

use super::tokens::{tokens, word};

/// Names with `::` between them.
pub type Path = Vec<String>;

/// One file of a crate.
#[derive(Debug, Default)]
pub struct SourceFile {
    /// Modules that are in files of their own.
    pub modules: Vec<String>,
    /// Every name that a `use` brings in.
    pub uses: Vec<Use>,
    /// Every path in the code, behind the inline modules that it is inside of.
    pub mentions: Vec<(Path, Path)>,
}

/// A name that a `use` brings in.
#[derive(Debug)]
pub struct Use {
    /// Inline modules that it is inside of.
    pub inside: Path,
    /// Where it comes from.
    pub path: Path,
    /// What it is called here; `*` for all that is there.
    pub name: String,
    /// Whether others may take it from here.
    pub public: bool,
}

/// Words that an item begins with; others begin fields and statements.
const ITEMS: [&str; 15] = [
    "pub",
    "fn",
    "mod",
    "use",
    "impl",
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "const",
    "static",
    "unsafe",
    "extern",
    "macro_rules",
];

impl SourceFile {
    /// Reads a file.
    pub fn parse(text: &str) -> SourceFile {
        let mut file = SourceFile::default();
        let tokens = tokens(text);
        let mut reader = Reader { tokens: &tokens, at: 0 };
        // Inline modules around this place, and how many braces were open when each began.
        let mut inside: Vec<(String, usize)> = Vec::new();
        let (mut depth, mut public) = (0, false);
        while let Some(token) = reader.peek(0) {
            let here = || inside.iter().map(|(name, _)| name.clone()).collect::<Path>();
            let was_public = std::mem::take(&mut public);
            match token {
                "#" => reader.attribute(),
                "pub" => {
                    reader.visibility();
                    public = true;
                }
                "mod" if reader.is_word(1) && reader.peek(2) == Some("{") => {
                    inside.push((reader.take(1), depth));
                    (reader.at, depth) = (reader.at + 3, depth + 1);
                }
                "mod" if reader.is_word(1) => {
                    file.modules.push(reader.take(1));
                    reader.at += 2;
                }
                "use" => {
                    reader.at += 1;
                    let at = here();
                    reader.use_tree(&Path::new(), &mut |path, name| {
                        file.uses.push(Use { inside: at.clone(), path, name, public: was_public });
                    });
                }
                "{" | "}" => {
                    depth = if token == "{" { depth + 1 } else { depth.saturating_sub(1) };
                    if token == "}" && inside.last().is_some_and(|(_, begin)| *begin == depth) {
                        inside.pop();
                    }
                    reader.at += 1;
                }
                _ if reader.is_word(0) => {
                    if let Some(path) = reader.path() {
                        file.mentions.push((here(), path));
                    }
                }
                _ => reader.at += 1,
            }
        }
        file
    }
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> Option<&'a str> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn is_word(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|token| word(token) > 0)
    }

    fn take(&self, ahead: usize) -> String {
        self.peek(ahead).unwrap_or_default().to_owned()
    }

    /// Passes over a bracket that opens here, with all that is in it.
    fn brackets(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.peek(0) {
            match token {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
    }

    /// `pub`, and what it is restricted to.
    fn visibility(&mut self) {
        self.at += 1;
        if self.peek(0) == Some("(") && matches!(self.peek(1), Some("crate" | "super" | "self" | "in")) {
            self.brackets();
        }
    }

    /// An attribute, and what it belongs to if that is for tests only.
    fn attribute(&mut self) {
        self.at += if self.peek(1) == Some("!") { 2 } else { 1 };
        let start = self.at;
        self.brackets();
        let attribute = &self.tokens[start..self.at];
        let test_only: [&[&str]; 2] =
            [&["[", "cfg", "(", "test", ")"], &["[", "cfg", "(", "all", "(", "test"]];
        if test_only.iter().any(|begin| attribute.starts_with(begin)) {
            self.item();
        }
    }

    /// Passes over an item, a field or a statement, with its other attributes.
    fn item(&mut self) {
        while self.peek(0) == Some("#") {
            self.at += 1;
            self.brackets();
        }
        let is_item = self.peek(0).is_some_and(|token| ITEMS.contains(&token));
        let mut is_use = false;
        while let Some(token) = self.peek(0) {
            match token {
                "use" => (is_use, self.at) = (true, self.at + 1),
                "{" => {
                    self.brackets();
                    if is_item && !is_use {
                        return;
                    }
                }
                "(" | "[" => self.brackets(),
                // The end of what this is the last field or statement of.
                ")" | "]" | "}" => return,
                ";" => {
                    self.at += 1;
                    return;
                }
                "," if !is_item => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// The names from here on with `::` between them; `None`: it is one name alone, or that of a macro, which the root hands on
    /// wherever it is.
    fn path(&mut self) -> Option<Path> {
        let mut path = vec![self.take(0)];
        self.at += 1;
        while self.peek(0) == Some("::") && self.is_word(1) {
            path.push(self.take(1));
            self.at += 2;
        }
        (path.len() > 1 && self.peek(0) != Some("!")).then_some(path)
    }

    /// What stands behind `use`, up to `;`, `,` or `}`.
    fn use_tree(&mut self, before: &Path, found: &mut dyn FnMut(Path, String)) {
        let mut path = before.clone();
        while let Some(token) = self.peek(0) {
            self.at += 1;
            match token {
                "::" => continue,
                "{" => return self.use_list(&path, found),
                "*" => return found(path, "*".into()),
                // The folder itself, in a list.
                "self" if !path.is_empty() => {}
                _ if word(token) > 0 => path.push(token.to_owned()),
                // No Rust that compiles.
                _ => return,
            }
            match self.peek(0) {
                Some("::") => {}
                Some("as") => {
                    let name = self.take(1);
                    self.at += 2;
                    return found(path, name);
                }
                _ => {
                    let name = path.last().cloned().unwrap_or_default();
                    return found(path, name);
                }
            }
        }
    }

    /// A list in braces, whose first is open already.
    fn use_list(&mut self, path: &Path, found: &mut dyn FnMut(Path, String)) {
        while !matches!(self.peek(0), None | Some("}")) {
            self.use_tree(path, found);
            if self.peek(0) == Some(",") {
                self.at += 1;
            }
        }
        self.at += 1;
    }
}
