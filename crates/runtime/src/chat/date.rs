//! Dates for templates: `strftime_now`.
//!
//! Source: Python's `datetime.strftime`, which transformers 5.24 gives to templates.

use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time to the second, without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Days since 1 January 1970.
    days: i64,
    /// Second of the day.
    second: u32,
}

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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Date {
    /// 1 January 2026, midnight: the day of everything that must be reproducible.
    pub const FIXED: Date = Date { days: 20_454, second: 0 };

    /// The current time in UTC.
    pub fn now() -> Date {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Date {
            days: i64::try_from(seconds / 86_400).unwrap_or(0),
            second: u32::try_from(seconds % 86_400).unwrap_or(0),
        }
    }

    /// Reads `2026-01-31`; midnight of the day.
    pub fn parse(text: &str) -> Option<Date> {
        let mut parts = text.split('-');
        let mut next = |len: usize| {
            let part =
                parts.next().filter(|part| part.len() == len && part.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|part| part.parse::<i64>().ok())
        };
        let (year, month, day) = (next(4)?, next(2)?, next(2)?);
        let date = Date { days: days_from(year, month, day), second: 0 };
        (parts.next().is_none() && year > 0 && date.civil() == (year, month, day)).then_some(date)
    }

    /// Year, month and day. Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
    fn civil(self) -> (i64, i64, i64) {
        let shifted = self.days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// The date in a format of `strftime`, in English. Unknown codes stay as they are.
    pub fn format(self, format: &str) -> String {
        let (year, month, day) = self.civil();
        let weekday = (self.days + 4).rem_euclid(7);
        let day_of_year = self.days - days_from(year, 1, 1) + 1;
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let month_name = usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&"");
        let day_name = usize::try_from(weekday).ok().and_then(|at| DAYS.get(at)).unwrap_or(&"");
        let hour_12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let rest = chars.as_str();
            let flag = rest.chars().next().filter(|c| matches!(c, '-' | '_' | '0'));
            if flag.is_some() {
                chars.next();
            }
            // A number with its usual width.
            let number = |value: i64, width: usize| match flag {
                Some('-') => value.to_string(),
                Some('_') => format!("{value:width$}"),
                _ => format!("{value:0width$}"),
            };
            let Some(code) = chars.next() else {
                text.push('%');
                text.extend(flag);
                break;
            };
            text += &match code {
                'Y' => year.to_string(),
                'y' => number(year.rem_euclid(100), 2),
                'C' => number(year / 100, 2),
                'm' => number(month, 2),
                'd' => number(day, 2),
                'e' => format!("{day:2}"),
                'j' => number(day_of_year, 3),
                'H' => number(hour.into(), 2),
                'I' => number(hour_12.into(), 2),
                'M' => number(minute.into(), 2),
                'S' => number(second.into(), 2),
                'f' => "000000".to_owned(),
                'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
                'B' => (*month_name).to_owned(),
                'b' | 'h' => month_name.chars().take(3).collect(),
                'A' => (*day_name).to_owned(),
                'a' => day_name.chars().take(3).collect(),
                'w' => weekday.to_string(),
                'u' => if weekday == 0 { 7 } else { weekday }.to_string(),
                'U' => number((day_of_year + 6 - weekday) / 7, 2),
                'W' => number((day_of_year + 6 - (weekday + 6) % 7) / 7, 2),
                'F' => self.format("%Y-%m-%d"),
                'T' | 'X' => self.format("%H:%M:%S"),
                'R' => self.format("%H:%M"),
                'D' | 'x' => self.format("%m/%d/%y"),
                'c' => self.format("%a %b %e %H:%M:%S %Y"),
                'n' => "\n".to_owned(),
                't' => "\t".to_owned(),
                '%' => "%".to_owned(),
                'Z' | 'z' => String::new(),
                other => {
                    ["%".to_owned(), flag.map(String::from).unwrap_or_default(), other.to_string()].concat()
                }
            };
        }
        text
    }
}

/// Days since 1 January 1970, by the same source.
fn days_from(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let day_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + day_of_era * 365 + day_of_era / 4 - day_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Next to what Python's `datetime.strftime` prints.
    #[test]
    fn formats_match_python() {
        let leap = Date::parse("2024-02-29").unwrap();
        assert_eq!(
            leap.format("%A %d %B %Y, %j %U %W %-m %e %y%%"),
            "Thursday 29 February 2024, 060 08 09 2 29 24%"
        );
        assert_eq!(Date::FIXED.format("%Y-%m-%d %H:%M:%S %a %b %I %p"), "2026-01-01 00:00:00 Thu Jan 12 AM");
    }

    #[test]
    fn invalid_dates_are_refused() {
        for text in ["2026-02-30", "2026-1-1", "x", "2026-01-01-01", "2026-13-01"] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
        assert_eq!(Date::parse("2026-01-01"), Some(Date::FIXED));
    }
}
