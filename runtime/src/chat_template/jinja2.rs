//! Tests and filters where the library differs from Jinja2, as Jinja2 has them (`tests.py`, `filters.py`): templates are
//! written for that.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind};

/// By how much a text may be too long and still stays whole (`truncate.leeway` of Jinja2's policies).
const LEEWAY: usize = 5;
/// Where a text is cut, by default.
const LENGTH: usize = 255;

/// Puts them into an environment.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("truncate", truncate);
}

/// What Python's `iter` takes. The library also iterates over none, of which templates say `tools is iterable`.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// What has a length and places.
fn is_sequence(value: &Value) -> bool {
    use ValueKind::{Bytes, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | Map | String | Bytes | Undefined)
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    let none = || wrong(format!("cannot calculate length of value of type {}", value.kind()));
    value.len().ok_or_else(none)
}

fn truncate(text: &str, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [length, killwords, end, leeway] =
        by_name(&args.into_values(), ["length", "killwords", "end", "leeway"])?;
    let number = |value: Option<Value>, default: usize| value.map_or(Ok(default), usize::try_from);
    let (length, leeway) = (number(length, LENGTH)?, number(leeway, LEEWAY)?);
    let end = end.map_or_else(|| "...".to_owned(), |end| end.to_string());
    let kept = length.checked_sub(end.chars().count());
    let kept = kept.ok_or_else(|| wrong(format!("truncate: expected length >= {end:?}, got {length}")))?;
    let place = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    if place(length.saturating_add(leeway)) == text.len() {
        return Ok(text.to_owned());
    }
    let kept = &text[..place(kept)];
    let whole_words = kept.rsplit_once(' ').filter(|_| !killwords.is_some_and(|kill| kill.is_true()));
    Ok(whole_words.map_or(kept, |(words, _)| words).to_owned() + &end)
}

/// Arguments by their places or their names, as Python takes them; none counts as not given.
pub(super) fn by_name<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (named, placed) = match args.split_last() {
        Some((last, placed)) if last.is_kwargs() => (Some(Kwargs::try_from(last.clone())?), placed),
        _ => (None, args),
    };
    if placed.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut found = [const { None }; N];
    for (place, name) in names.into_iter().enumerate() {
        found[place] = match (placed.get(place), &named) {
            (Some(value), _) => Some(value.clone()),
            (None, Some(named)) => named.get::<Option<Value>>(name)?,
            (None, None) => None,
        };
    }
    named.map_or(Ok(()), |named| named.assert_all_used())?;
    Ok(found.map(|value| value.filter(|value| !value.is_none() && !value.is_undefined())))
}

pub(super) fn wrong(problem: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
