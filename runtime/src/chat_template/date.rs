//! The date that templates ask for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day of the Gregorian calendar, of the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

/// Why a text is no date.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DateError {
    /// It is written in another way.
    #[error("expected a date as YYYY-MM-DD, found '{found}'")]
    Form {
        /// The text.
        found: String,
    },
    /// There is no such day.
    #[error("there is no day {found} in the calendar")]
    NoSuchDay {
        /// The text.
        found: String,
    },
}

impl Date {
    /// The date that templates get where nothing else is asked for: that which those of LLaMA 3 write where they cannot ask.
    /// With the real one no conversion could be repeated.
    pub const FIXED: Date = Date { year: 2024, month: 7, day: 26 };

    /// The day of a time since the beginning of 1970, UTC.
    pub fn of_unix_seconds(seconds: u64) -> Date {
        // Days since 1 March of year 0, so that leap days end years; 400 years have 146097 days
        // (howardhinnant.github.io/date_algorithms.html, civil_from_days).
        let days = seconds / SECONDS_PER_DAY + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        // All are small but the year of a clock that is badly wrong.
        Date { year: year.min(9999) as u16, month: month as u8, day: day as u8 }
    }

    fn is_leap_year(self) -> bool {
        self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_of_month(self, month: u8) -> u16 {
        match month {
            2 => 28 + u16::from(self.is_leap_year()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The number of the day in its year, from 1.
    fn day_of_year(self) -> u16 {
        (1..self.month).map(|month| self.days_of_month(month)).sum::<u16>() + u16::from(self.day)
    }

    /// Days since Sunday.
    fn weekday(self) -> usize {
        let before = u32::from(self.year) - 1;
        // 1 January of year 1 was a Monday.
        let days = 365 * before + before / 4 - before / 100 + before / 400 + u32::from(self.day_of_year());
        days as usize % 7
    }

    /// The date in the words of Python's `strftime`, at midnight.
    ///
    /// # Errors
    /// The letter behind a `%` that is not known; `None` where there is none.
    pub(super) fn strftime(self, format: &str) -> Result<String, Option<char>> {
        let Date { year, month, day } = self;
        let month_name = MONTHS[usize::from(month) - 1];
        let weekday = WEEKDAYS[self.weekday()];
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut letter = chars.next().ok_or(None)?;
            // Without zeros before it.
            let bare = letter == '-';
            if bare {
                letter = chars.next().ok_or(None)?;
            }
            let text = match letter {
                'd' => format!("{day:02}"),
                'e' => format!("{day:2}"),
                'm' => format!("{month:02}"),
                'b' | 'h' => month_name[..3].to_owned(),
                'B' => month_name.to_owned(),
                'Y' => year.to_string(),
                'y' => format!("{:02}", year % 100),
                'a' => weekday[..3].to_owned(),
                'A' => weekday.to_owned(),
                'j' => format!("{:03}", self.day_of_year()),
                'F' => self.to_string(),
                'H' | 'M' | 'S' => "00".to_owned(),
                'I' => "12".to_owned(),
                'p' => "AM".to_owned(),
                'T' => "00:00:00".to_owned(),
                '%' => "%".to_owned(),
                other => return Err(Some(other)),
            };
            let number = bare && text.bytes().all(|byte| byte.is_ascii_digit());
            out += match text.trim_start_matches('0') {
                "" if number => "0",
                trimmed if number => trimmed,
                _ => &text,
            };
        }
        Ok(out)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = DateError;

    fn from_str(text: &str) -> Result<Date, DateError> {
        let number = |part: &str, digits: usize| {
            let fits = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u16>().ok().filter(|_| fits)
        };
        let parts: Vec<&str> = text.split('-').collect();
        let numbers = match parts[..] {
            [year, month, day] => number(year, 4).zip(number(month, 2)).zip(number(day, 2)),
            _ => None,
        };
        let ((year, month), day) = numbers.ok_or_else(|| DateError::Form { found: text.to_owned() })?;
        let date = Date { year, month: month as u8, day: day as u8 };
        if year == 0 || !(1..=12).contains(&month) || day == 0 || day > date.days_of_month(date.month) {
            return Err(DateError::NoSuchDay { found: text.to_owned() });
        }
        Ok(date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_has_them() {
        for (seconds, date, words) in [
            (0, "1970-01-01", "Thursday 001"),
            (951_782_400, "2000-02-29", "Tuesday 060"),
            (1_721_952_000, "2024-07-26", "Friday 208"),
            (1_735_603_200, "2024-12-31", "Tuesday 366"),
            (1_735_689_599, "2024-12-31", "Tuesday 366"),
            (1_735_689_600, "2025-01-01", "Wednesday 001"),
            (4_107_542_400, "2100-03-01", "Monday 060"),
        ] {
            let found = Date::of_unix_seconds(seconds);
            assert_eq!(found.to_string(), date);
            assert_eq!(found.strftime("%A %j").unwrap(), words);
            assert_eq!(date.parse(), Ok(found));
        }
        assert_eq!("2024-07-26".parse(), Ok(Date::FIXED));
    }

    #[test]
    fn words_are_those_of_strftime() {
        let date: Date = "2025-03-09".parse().unwrap();
        let words = date.strftime("%d %e %-d %m %-m %b %B %Y %y %a %F %-j %H:%M:%S %I %p %T %%").unwrap();
        let expected = "09  9 9 03 3 Mar March 2025 25 Sun 2025-03-09 68 00:00:00 12 AM 00:00:00 %";
        assert_eq!(words, expected);
        assert_eq!((date.strftime("%Q"), date.strftime("a%")), (Err(Some('Q')), Err(None)));
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for form in ["", "today", "2024-7-26", "24-07-26", "2024-07-26 ", "2024/07/26", "+024-07-26"] {
            let error = form.parse::<Date>().unwrap_err();
            assert_eq!(error, DateError::Form { found: form.to_owned() });
        }
        for day in ["2023-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "2024-01-00", "0000-01-01"] {
            assert_eq!(day.parse::<Date>(), Err(DateError::NoSuchDay { found: day.to_owned() }));
        }
    }
}
