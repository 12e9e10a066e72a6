//! Methods of Python's texts and lists that `pycompat` of the library lacks.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::jinja2::{by_name, wrong};

/// Most characters that `zfill` may be asked for.
const MAX_WIDTH: usize = 1 << 20;

/// Calls a method that the value itself does not have.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let found = match (value.kind(), value.as_str()) {
        (_, Some(text)) => of_text(text, method, args)?,
        (ValueKind::Seq, None) if method == "index" => Some(index(value, args)?),
        _ => None,
    };
    found.map_or_else(|| unknown_method_callback(state, value, method, args), Ok)
}

/// What a method of a text gives; `None` where it is none of these.
fn of_text(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let one = || -> Result<String, Error> {
        let [value] = by_name(args, [""])?;
        let value = value.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
        value.as_str().map(str::to_owned).ok_or_else(|| wrong(format!("{method}: expected a text")))
    };
    let parts = |found: Option<[&str; 3]>, without: [&str; 3]| list(found.unwrap_or(without));
    Ok(Some(match method {
        "rsplit" => {
            let (separator, most) = splits(args)?;
            list(rsplit(text, separator.as_deref(), most)?)
        }
        // The library's own takes no names.
        "split" if args.last().is_some_and(Value::is_kwargs) => {
            let (separator, most) = splits(args)?;
            let most = most.map(|most| most as i64);
            minijinja::filters::split(&Value::from(text), separator.map(Into::into), most)?
        }
        "partition" => {
            let separator = one()?;
            let found = text.split_once(&separator).map(|(a, b)| [a, &*separator, b]);
            parts(found, [text, "", ""])
        }
        "rpartition" => {
            let separator = one()?;
            let found = text.rsplit_once(&separator).map(|(a, b)| [a, &*separator, b]);
            parts(found, ["", "", text])
        }
        "removeprefix" => text.strip_prefix(&*one()?).unwrap_or(text).into(),
        "removesuffix" => text.strip_suffix(&*one()?).unwrap_or(text).into(),
        "swapcase" => text.chars().map(swapped).collect::<String>().into(),
        "zfill" => {
            let [width] = by_name(args, ["width"])?;
            let width = width.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
            zfill(text, usize::try_from(width)?)?.into()
        }
        "index" => {
            let part = one()?;
            let at = text.find(&part).ok_or_else(|| wrong("index: substring not found".into()))?;
            text[..at].chars().count().into()
        }
        _ => return Ok(None),
    }))
}

fn list<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    parts.into_iter().map(Value::from).collect()
}

/// What a text is split at, white space where there is nothing, and how often; without end below 0.
fn splits(args: &[Value]) -> Result<(Option<String>, Option<usize>), Error> {
    let [separator, most] = by_name(args, ["sep", "maxsplit"])?;
    let most = most.map(i64::try_from).transpose()?;
    let separator = separator.map(|separator| separator.to_string());
    if separator.as_deref() == Some("") {
        return Err(wrong("split: empty separator".into()));
    }
    Ok((separator, most.and_then(|most| usize::try_from(most).ok())))
}

/// The parts of a text, split from its end.
fn rsplit<'a>(text: &'a str, separator: Option<&str>, most: Option<usize>) -> Result<Vec<&'a str>, Error> {
    let most = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if let Some(separator) = separator {
        parts.extend(text.rsplitn(most.saturating_add(1), separator));
    } else {
        let mut rest = text.trim_end();
        while !rest.is_empty() {
            let space = rest.rfind(char::is_whitespace).filter(|_| parts.len() < most);
            let Some(space) = space else {
                parts.push(rest);
                break;
            };
            let word = rest[space..].trim_start();
            parts.push(word);
            rest = rest[..space].trim_end();
        }
    }
    parts.reverse();
    Ok(parts)
}

fn swapped(c: char) -> String {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// Zeros before a number, behind its sign.
fn zfill(text: &str, width: usize) -> Result<String, Error> {
    if width > MAX_WIDTH {
        return Err(wrong(format!("zfill: a width of {width}")));
    }
    let zeros = "0".repeat(width.saturating_sub(text.chars().count()));
    let sign = usize::from(text.starts_with(['+', '-']));
    Ok(format!("{}{zeros}{}", &text[..sign], &text[sign..]))
}

/// The place of the first item that equals the argument.
fn index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let [item] = args else {
        return Err(wrong("index: expected one argument".into()));
    };
    let place = list.try_iter()?.position(|found| found == *item);
    place.map(Value::from).ok_or_else(|| wrong(format!("index: {item} is not in the list")))
}
