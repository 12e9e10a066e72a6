//! Source text as words and signs.

/// Words (names, keywords, numbers) and signs of Rust, `::` as one. Comments are left out; a string or a character is a
/// quotation mark.
pub fn tokens(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let skipped = blank(rest);
        if skipped > 0 {
            rest = &rest[skipped..];
            continue;
        }
        let (token, len) = match literal(rest) {
            Some(len) => ("\"", len),
            None => {
                let len = word(rest).max(sign(rest));
                (&rest[..len], len)
            }
        };
        found.push(token);
        rest = &rest[len..];
    }
    found
}

/// Bytes of white space, or of a comment, at the start.
fn blank(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if !text.starts_with("/*") {
        return text.len() - text.trim_start().len();
    }
    // Comments of this kind nest.
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Bytes of a name or a number at the start.
pub fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Bytes of a sign at the start.
fn sign(text: &str) -> usize {
    if text.starts_with("::") { 2 } else { text.chars().next().map_or(1, char::len_utf8) }
}

/// Bytes of a string or a character at the start.
fn literal(text: &str) -> Option<usize> {
    let prefix = usize::from(text.starts_with(['b', 'c']));
    let text = &text[prefix..];
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(prefix + 1 + hashes + 1 + body.find(&end)? + end.len());
    }
    if let Some(body) = text.strip_prefix('"') {
        return Some(prefix + 1 + closing(body, '"')?);
    }
    let body = text.strip_prefix('\'')?;
    // A lifetime has no quotation mark behind its first character.
    let first = body.chars().next()?;
    let is_char = first == '\\' || body[first.len_utf8()..].starts_with('\'');
    is_char.then(|| closing(body, '\'')).flatten().map(|len| prefix + 1 + len)
}

/// Bytes up to and with the next `mark` that no backslash stands before.
fn closing(body: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(at + 1),
            _ => {}
        }
    }
    None
}
