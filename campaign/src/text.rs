//! Schedules as one line of words, each a name and a value:
//!
//! ```text
//! topology=ring-4-1 engine=updn vls=2 ... flow@250:0:3:16:100:0 cut@1500+800:7 loss@0+0:2:10000
//! ```
//!
//! A fault is its name, when it begins and for how long (microseconds), and its numbers. Words that
//! are left out have the values of [`Schedule::of`].

use core::fmt;
use core::str::FromStr;

use routing::RoutingEngine;
use routing::multicast::Scheme;
use thiserror::Error;

use crate::schedule::{
    Division, Fault, FaultKind, ITEMS_MAX, KeyProtection, LENGTH_US_MAX, PARTITIONS_MAX,
    STANDBYS_MAX, Schedule, Standby, Traffic, TrafficKind,
};

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{word:?} in the schedule: {problem}")]
pub struct ScheduleError {
    /// The word.
    pub word: String,
    /// What is wrong with it, and what is allowed.
    pub problem: String,
}

impl Schedule {
    /// A quiet schedule on a fabric: without traffic and faults.
    #[must_use]
    pub fn of(topology: &str) -> Self {
        Self {
            seed: 0,
            is_managed: true,
            topology: topology.to_owned(),
            engine: RoutingEngine::Auto,
            lmc: None,
            vls: 1,
            buffer: 4,
            is_paced: true,
            flight_ns: 100,
            trees: Scheme::SpanningTree,
            sweep_ms: 1000,
            timeout_ms: 50,
            retries: 4,
            priority: 8,
            standbys: Vec::new(),
            m_key: None,
            partitions: None,
            from_start: false,
            length_us: 0,
            traffic: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topology={} engine={}", self.topology, self.engine)?;
        if !self.is_managed {
            write!(f, " managed=0")?;
        }
        if let Some(lmc) = self.lmc {
            write!(f, " lmc={lmc}")?;
        }
        write!(
            f,
            " vls={} buffer={} paced={} flight={} trees={} sweep={} timeout={} retries={} from-start={} length={} draw={}",
            self.vls,
            self.buffer,
            u8::from(self.is_paced),
            self.flight_ns,
            self.trees,
            self.sweep_ms,
            self.timeout_ms,
            self.retries,
            u8::from(self.from_start),
            self.length_us,
            self.seed,
        )?;
        if self.priority != Self::of("").priority {
            write!(f, " priority={}", self.priority)?;
        }
        for Standby { host, priority } in &self.standbys {
            write!(f, " standby={host}:{priority}")?;
        }
        if let Some(key) = &self.m_key {
            write!(f, " m-key={}:{}", key.protect_bits, key.lease_s)?;
        }
        if let Some(division) = &self.partitions {
            write!(f, " partitions={}:{}", division.count, division.enforcement)?;
        }
        for traffic in &self.traffic {
            write!(f, " {traffic}")?;
        }
        for fault in &self.faults {
            write!(f, " {fault}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at_us;
        match self.what {
            TrafficKind::Pings {
                host,
                count,
                interval_us,
            } => write!(f, "pings@{at}:{host}:{count}:{interval_us}"),
            TrafficKind::Flow {
                from,
                to,
                window,
                count,
                rate_kbps,
            } => write!(f, "flow@{at}:{from}:{to}:{window}:{count}:{rate_kbps}"),
            TrafficKind::Join { host } => write!(f, "join@{at}:{host}"),
            TrafficKind::Multicast { host, count } => write!(f, "multicast@{at}:{host}:{count}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.what.name(), self.at_us, self.for_us)?;
        match self.what {
            FaultKind::Loss { cable, ppm }
            | FaultKind::Damage { cable, ppm }
            | FaultKind::CreditLoss { cable, ppm }
            | FaultKind::Duplication { cable, ppm } => write!(f, ":{cable}:{ppm}"),
            FaultKind::Delay { cable, ppm, by_us } => write!(f, ":{cable}:{ppm}:{by_us}"),
            FaultKind::Cut { cable: number }
            | FaultKind::SwitchCrash { switch: number }
            | FaultKind::HostCrash { host: number } => write!(f, ":{number}"),
            FaultKind::SlowDrain { host, ns } => write!(f, ":{host}:{ns}"),
            FaultKind::ManagerCrash { manager } | FaultKind::ManagerStop { manager } => {
                write!(f, ":{manager}")
            }
            FaultKind::Lies { host, about } => write!(f, ":{host}:{about}"),
            FaultKind::Hostile { host, what, count } => {
                write!(f, ":{host}:{what}:{count}")
            }
        }
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let topology = words.iter().find_map(|word| word.strip_prefix("topology="));
        let topology = topology.ok_or_else(|| ScheduleError {
            word: text.chars().take(40).collect(),
            problem: "topology=NAME is missing".to_owned(),
        })?;
        let mut schedule = Self::of(topology);
        // A schedule is one line: it takes no files.
        let is_name = !topology.contains(['/', '.']);
        let graph = schedule.graph().map_err(|error| error.to_string());
        let refused = match is_name {
            true => graph.err(),
            false => Some("a topology has a name; files are not read".to_owned()),
        };
        if let Some(problem) = refused {
            let word = topology.to_owned();
            return Err(ScheduleError { word, problem });
        }
        for word in words {
            let refuse = |problem: String| ScheduleError {
                word: word.to_owned(),
                problem,
            };
            schedule.read(word).map_err(refuse)?;
        }
        Ok(schedule)
    }
}

impl Schedule {
    fn read(&mut self, word: &str) -> Result<(), String> {
        if let Some((name, value)) = word.split_once('=') {
            return self.read_setting(name, value);
        }
        let (name, rest) = word
            .split_once('@')
            .ok_or("neither NAME=VALUE nor NAME@TIME")?;
        let mut numbers = rest.split(':');
        let time = numbers.next().unwrap_or_default();
        let mut values = Values(numbers);
        let (at, length) = match time.split_once('+') {
            None => (time, None),
            Some((at, length)) => (at, Some(length)),
        };
        let at_us = ranged(at, 0, LENGTH_US_MAX)?;
        match length {
            None => self.traffic.push(Traffic {
                at_us,
                what: values.traffic(name)?,
            }),
            Some(length) => self.faults.push(Fault {
                at_us,
                for_us: ranged(length, 0, LENGTH_US_MAX)?,
                what: values.fault(name)?,
            }),
        }
        if self.traffic.len().max(self.faults.len()) > ITEMS_MAX {
            return Err(format!("more than {ITEMS_MAX} of its kind"));
        }
        values.end()
    }

    fn read_setting(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            // Read before.
            "topology" => {}
            "managed" => self.is_managed = ranged::<u8>(value, 0, 1)? == 1,
            "engine" => self.engine = choice(value)?,
            "trees" => self.trees = choice(value)?,
            "lmc" => self.lmc = Some(ranged(value, 0, 7)?),
            "vls" => self.vls = ranged(value, 1, 15)?,
            "buffer" => self.buffer = ranged(value, 1, 32)?,
            "paced" => self.is_paced = ranged::<u8>(value, 0, 1)? == 1,
            "flight" => self.flight_ns = ranged(value, 1, 1_000_000)?,
            "sweep" => self.sweep_ms = ranged(value, 10, 60_000)?,
            "timeout" => self.timeout_ms = ranged(value, 1, 10_000)?,
            "retries" => self.retries = ranged(value, 0, 100)?,
            "priority" => self.priority = ranged(value, 0, 15)?,
            "standby" => {
                let (host, priority) = pair(value)?;
                if self.standbys.len() == STANDBYS_MAX {
                    return Err(format!("more than {STANDBYS_MAX} standbys"));
                }
                self.standbys.push(Standby {
                    host: ranged(host, 0, u32::MAX)?,
                    priority: ranged(priority, 0, 15)?,
                });
            }
            "m-key" => {
                let (protect_bits, lease_s) = pair(value)?;
                self.m_key = Some(KeyProtection {
                    protect_bits: ranged(protect_bits, 0, 3)?,
                    lease_s: ranged(lease_s, 0, u16::MAX)?,
                });
            }
            "partitions" => {
                let (count, enforcement) = pair(value)?;
                self.partitions = Some(Division {
                    count: ranged(count, 1, PARTITIONS_MAX)?,
                    enforcement: choice(enforcement)?,
                });
            }
            "from-start" => self.from_start = ranged::<u8>(value, 0, 1)? == 1,
            "length" => self.length_us = ranged(value, 0, LENGTH_US_MAX)?,
            "draw" => self.seed = ranged(value, 0, u64::MAX)?,
            _ => return Err("no such setting".to_owned()),
        }
        Ok(())
    }
}

fn pair(value: &str) -> Result<(&str, &str), String> {
    value
        .split_once(':')
        .ok_or_else(|| format!("{value:?} is no pair with a colon between"))
}

fn choice<T: FromStr<Err: fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn ranged<T>(value: &str, least: T, most: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    let number: Option<T> = value.parse().ok();
    number
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| format!("{value:?} is no number from {least} to {most}"))
}

/// The numbers behind a name and its time.
struct Values<'t>(core::str::Split<'t, char>);

impl Values<'_> {
    fn number(&mut self) -> Result<u32, String> {
        ranged(self.0.next().ok_or("a number is missing")?, 0, u32::MAX)
    }

    /// One of several names.
    fn choice<T: FromStr<Err: fmt::Display>>(&mut self) -> Result<T, String> {
        choice(self.0.next().ok_or("a name is missing")?)
    }

    /// A number that may be left out.
    fn number_or(&mut self, default: u32) -> Result<u32, String> {
        match self.0.next() {
            None => Ok(default),
            Some(given) => ranged(given, 0, u32::MAX),
        }
    }

    fn ppm(&mut self) -> Result<u32, String> {
        ranged(self.0.next().ok_or("a rate is missing")?, 0, 1_000_000)
    }

    fn end(mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(more) => Err(format!("{more:?} is too much")),
        }
    }

    fn traffic(&mut self, name: &str) -> Result<TrafficKind, String> {
        Ok(match name {
            "pings" => TrafficKind::Pings {
                host: self.number()?,
                count: self.number()?,
                interval_us: self.number()?,
            },
            "flow" => TrafficKind::Flow {
                from: self.number()?,
                to: self.number()?,
                window: self.number()?,
                count: self.number()?,
                rate_kbps: self.number()?,
            },
            "join" => TrafficKind::Join {
                host: self.number()?,
            },
            "multicast" => TrafficKind::Multicast {
                host: self.number()?,
                count: self.number()?,
            },
            _ => return Err("no such traffic: pings, flow, join, multicast".to_owned()),
        })
    }

    fn fault(&mut self, name: &str) -> Result<FaultKind, String> {
        let cable = |values: &mut Self| Ok::<_, String>((values.number()?, values.ppm()?));
        Ok(match name {
            "loss" => {
                let (cable, ppm) = cable(self)?;
                FaultKind::Loss { cable, ppm }
            }
            "damage" => {
                let (cable, ppm) = cable(self)?;
                FaultKind::Damage { cable, ppm }
            }
            "credit-loss" => {
                let (cable, ppm) = cable(self)?;
                FaultKind::CreditLoss { cable, ppm }
            }
            "duplication" => {
                let (cable, ppm) = cable(self)?;
                FaultKind::Duplication { cable, ppm }
            }
            "delay" => {
                let (cable, ppm) = cable(self)?;
                let by_us = self.number()?;
                FaultKind::Delay { cable, ppm, by_us }
            }
            "cut" => FaultKind::Cut {
                cable: self.number()?,
            },
            "switch-crash" => FaultKind::SwitchCrash {
                switch: self.number()?,
            },
            "host-crash" => FaultKind::HostCrash {
                host: self.number()?,
            },
            "manager-crash" => FaultKind::ManagerCrash {
                manager: self.number_or(0)?,
            },
            "manager-stop" => FaultKind::ManagerStop {
                manager: self.number_or(0)?,
            },
            "lies" => FaultKind::Lies {
                host: self.number()?,
                about: self.choice()?,
            },
            "slow-drain" => FaultKind::SlowDrain {
                host: self.number()?,
                ns: self.number()?,
            },
            "hostile" => {
                let host = self.number()?;
                FaultKind::Hostile {
                    host,
                    what: self.choice()?,
                    count: self.number()?,
                }
            }
            _ => return Err("no such fault".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "topology=ring-4-1 engine=updn managed=0 lmc=1 vls=2 buffer=3 paced=0 flight=20 \
        trees=cyclic sweep=500 timeout=20 retries=2 from-start=1 length=4000000 draw=77 priority=3 \
        standby=2:9 standby=1:3 m-key=2:15 partitions=3:out \
        pings@5:1:2:100 flow@7:0:3:16:100:2000 join@1:2 multicast@9:2:10 loss@1+2:3:4 \
        damage@1+0:3:4 credit-loss@1+2:3:4 duplication@1+2:3:4 delay@1+2:3:4:5 cut@6+7:8 \
        switch-crash@6+0:1 host-crash@6+7:1 manager-crash@8+9:1 manager-stop@8+9:0 lies@1+0:2:guids slow-drain@1+2:3:4 \
        hostile@10+0:1:sets:5";

    #[test]
    fn what_is_written_reads_back() {
        let schedule: Schedule = TEXT.parse().unwrap();
        assert_eq!(
            schedule.to_string(),
            TEXT.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        assert_eq!((schedule.traffic.len(), schedule.faults.len()), (4, 13));
    }

    #[test]
    fn a_manager_crash_without_a_number_is_the_first_ones() {
        let [short, long] = ["manager-crash@8+9", "manager-crash@8+9:0"].map(|fault| {
            let text = format!("topology=star-2 {fault}");
            text.parse::<Schedule>().unwrap()
        });
        assert_eq!(short, long);
    }

    #[test]
    fn what_is_no_schedule_is_named() {
        for (text, problem) in [
            ("engine=updn", "topology=NAME is missing"),
            ("topology=sphere-4-1", "sphere-4-1"),
            ("topology=./ring-4-1", "files are not read"),
            (
                "topology=ring-4-1 engine=best",
                "no routing engine is called \"best\"",
            ),
            ("topology=ring-4-1 lmc=8", "\"8\" is no number from 0 to 7"),
            ("topology=ring-4-1 cut@1+2", "a number is missing"),
            ("topology=ring-4-1 cut@1+2:3:4", "\"4\" is too much"),
            (
                "topology=ring-4-1 loss@1+2:3:1000001",
                "no number from 0 to 1000000",
            ),
            ("topology=ring-4-1 flood@1+2", "no such fault"),
            ("topology=ring-4-1 standby=2", "is no pair"),
            ("topology=ring-4-1 m-key=4:0", "no number from 0 to 3"),
            ("topology=ring-4-1 partitions=2:some", "\"some\""),
            ("topology=ring-4-1 lies@1+2:3:much", "there are ports, lids"),
            ("topology=ring-4-1 cut", "neither NAME=VALUE nor NAME@TIME"),
            (
                "topology=ring-4-1 hostile@1+2:1:words:3",
                "no hostile datagrams is called \"words\"",
            ),
        ] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
