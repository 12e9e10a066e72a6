//! Lists in JSON that may be long but hold little in each of their members, counted before anything is built of them: a tree of
//! short texts takes ten times their size.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Limits on a list in JSON.
#[derive(Debug, Clone, Copy)]
pub struct FlatJson {
    /// Members of all objects and lists together.
    pub members: usize,
    /// Objects and lists within each other, the outermost one included.
    pub depth: usize,
}

impl FlatJson {
    /// Checks that `json` is within the limits.
    ///
    /// # Errors
    /// Which limit it exceeds, or that it is no JSON, in words.
    pub fn check(self, json: &[u8]) -> Result<(), String> {
        let mut text = serde_json::Deserializer::from_slice(json);
        let mut members = 0;
        let counter = Counter { limits: self, depth: 0, members: &mut members };
        counter.deserialize(&mut text).map_err(|e| e.to_string())
    }
}

/// Counts the members of a value.
struct Counter<'a> {
    limits: FlatJson,
    depth: usize,
    members: &'a mut usize,
}

impl Counter<'_> {
    fn enter<E: Error>(&self) -> Result<(), E> {
        let most = self.limits.depth;
        if self.depth == most {
            Err(E::custom(format!("values nested more than {most} deep")))
        } else {
            Ok(())
        }
    }

    fn inner(&mut self) -> Counter<'_> {
        Counter { limits: self.limits, depth: self.depth + 1, members: self.members }
    }

    fn count<E: Error>(&mut self) -> Result<(), E> {
        *self.members += 1;
        let most = self.limits.members;
        if *self.members > most { Err(E::custom(format!("more than {most} values"))) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.enter()?;
        while list.next_element_seed(self.inner())?.is_some() {
            self.count()?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.enter()?;
        while object.next_key::<IgnoredAny>()?.is_some() {
            self.count()?;
            object.next_value_seed(self.inner())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<(), String> {
        FlatJson { members: 4, depth: 2 }.check(json.as_bytes())
    }

    #[test]
    fn members_are_counted_at_every_depth() {
        check(r#"{"a": {"b": 1, "c": null}, "d": "e"}"#).unwrap();
        for json in [r#"{"a": {"b": 1, "c": -1}, "d": true, "e": 0.5}"#, "[1, 2, 3, 4, 5]", "[[1, 2], [1]]"] {
            assert!(check(json).unwrap_err().contains("more than 4 values"), "{json}");
        }
    }

    #[test]
    fn deeper_values_and_what_is_no_json_are_refused() {
        assert!(check("[[[]]]").unwrap_err().contains("nested more than 2 deep"));
        assert!(check(r#"{"a": {"b": {}}}"#).unwrap_err().contains("nested more than 2 deep"));
        assert!(check(&"[".repeat(1_000_000)).is_err() && check("{").is_err());
    }
}
