//! Which files are of one model, what that is called, and which of them others beat.

use super::facts::FileFacts;

/// Files that were made of the same source.
pub(super) struct Model {
    /// What it is called, as far as the names of its files say.
    pub name: String,
    /// Its files, by their places in the report.
    pub files: Vec<usize>,
}

/// What ends names of files and is no name of a model.
const ENDS: [&str; 2] = [".qsf", ".gguf"];
/// What stands between the parts of a name.
const BETWEEN: [char; 3] = ['-', '_', '.'];
/// More names than this are not read in a title.
const NAMED: usize = 3;

/// The models of a report, in the order of their first files.
pub(super) fn models(files: &[FileFacts]) -> Vec<Model> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (i, file) in files.iter().enumerate() {
        match groups.iter_mut().find(|group| same_sources(&files[group[0]], file)) {
            Some(group) => group.push(i),
            None => groups.push(vec![i]),
        }
    }
    let named = groups.into_iter().map(|group| {
        let stems: Vec<&str> = group.iter().map(|i| stem(&files[*i])).collect();
        Model { name: common(&stems), files: group }
    });
    named.collect()
}

/// What a page or a card is headed by.
pub(super) fn title(files: &[FileFacts]) -> String {
    let models = models(files);
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    match &names[..] {
        names if names.iter().any(|name| name.is_empty()) => format!("{} files", files.len()),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= NAMED => format!("{} and {last}", first.join(", ")),
        names => format!("{} models", names.len()),
    }
}

/// For each file the first of those of the same model, evaluated alike, that are no larger and no further from the source, and
/// better in one of both.
pub(super) fn dominated(files: &[FileFacts]) -> Vec<Option<usize>> {
    let mut found = vec![None; files.len()];
    for model in models(files) {
        for &i in &model.files {
            found[i] = model.files.iter().copied().find(|&other| beats(&files[other], &files[i]));
        }
    }
    found
}

fn beats(better: &FileFacts, file: &FileFacts) -> bool {
    let (Some(a), Some(b)) = (&better.evaluation, &file.evaluation) else { return false };
    let (Some(near), Some(far)) = (a.kld, b.kld) else { return false };
    a.is_on_same_text(b)
        && better.bytes <= file.bytes
        && near <= far
        && (better.bytes < file.bytes || near < far)
}

fn same_sources(a: &FileFacts, b: &FileFacts) -> bool {
    let sources = |file: &FileFacts| {
        file.meta.as_ref().map(|meta| {
            meta.provenance.sources.iter().map(|source| source.sha256.clone()).collect::<Vec<_>>()
        })
    };
    sources(a) == sources(b)
}

/// The name of a file without what says that it is one, and its type.
fn stem(file: &FileFacts) -> &str {
    let name = file.name.rsplit(['/', '\\']).next().unwrap_or(&file.name);
    let name = ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let without_type = name.strip_suffix(file.quant).map(|rest| rest.trim_end_matches(BETWEEN));
    without_type.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// What all names begin with, up to where a part of them ends.
fn common(names: &[&str]) -> String {
    let Some((first, rest)) = names.split_first() else { return String::new() };
    let shared = rest.iter().fold(first.len(), |length, name| {
        let same = first.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        length.min(same)
    });
    let ends_there = |name: &&str| name[shared..].is_empty() || name[shared..].starts_with(BETWEEN);
    if first.is_char_boundary(shared) && names.iter().all(ends_there) {
        return first[..shared].to_owned();
    }
    let shared = first.floor_char_boundary(shared);
    first[..shared].rfind(BETWEEN).map_or_else(String::new, |end| first[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_what_the_names_of_its_files_share() {
        assert_eq!(common(&["demo-1m", "demo-1m", "demo-1m"]), "demo-1m");
        assert_eq!(common(&["demo-1m", "demo-1m-500kB"]), "demo-1m");
        assert_eq!(common(&["gpt2-17m-9MB", "gpt2-17m-12MB"]), "gpt2-17m");
        assert_eq!(common(&["llama-53m-small", "llama-53m-tiny", "llama-53m"]), "llama-53m");
        assert_eq!(common(&["good", "small"]), "");
        assert_eq!(common(&["größe-a", "größe-b"]), "größe");
        assert_eq!(common(&["one"]), "one");
    }
}
