//! The flows of a group: who sends to whom, and how much.

use std::net::Ipv6Addr;

use topologies::matches;
use wire::convert::saturate;
use wire::{Gid, Sl};

use super::super::flows::{DURATION_MS, FlowSpec, Share, seed_of};
use super::super::{Pattern, PatternError};
use super::{GroupPlan, RateText, What, milliseconds};
use crate::quantity;
use crate::verify::Pair;

/// Packet length where none is given, bytes.
const SIZE: u16 = 290;

impl GroupPlan {
    /// What the report calls it.
    pub(super) fn name(&self, number: u32) -> String {
        let name = self.name.clone();
        name.or_else(|| self.pattern.map(|pattern| pattern.to_string()))
            .unwrap_or_else(|| format!("flows {}", number + 1))
    }

    /// Its flows, in ascending order of source and destination.
    pub(super) fn flows(
        &self,
        hosts: &[&str],
        group: u32,
        seed: u64,
        time_scale: f64,
    ) -> Result<Vec<FlowSpec>, String> {
        self.check()?;
        let sl = self.sl.map(Sl::new).transpose();
        let sl = sl.map_err(|error| error.to_string())?;
        let connection = match (self.class, self.rate) {
            (None, _) => None,
            (Some(_), None) => return Err("class needs a rate: that of each flow".to_owned()),
            (Some(class), Some(RateText(rate))) => {
                Some((class.sl(rate), quantity::scaled_down(rate, time_scale)))
            }
        };
        let sl = sl.or(connection.map(|(sl, _)| sl));
        let pairs = self.pairs(hosts, seed)?;
        let flow = |(pair, share): (Pair, Share)| {
            let shared = self.rate.map_or(0, |RateText(rate)| share.rate(rate));
            let rate = connection.map_or(shared, |(_, rate)| rate);
            let mgid = self.is_multicast().then(|| mgid_of(group));
            FlowSpec {
                pair,
                group,
                mgid,
                size: self.size.unwrap_or(SIZE),
                window: match (self.window, rate) {
                    (Some(window), _) => window,
                    (None, _) if mgid.is_some() => 0,
                    (None, 0) => share.window(),
                    (None, _) => 0,
                },
                rate,
                sl,
                dlid_offset: self.dlid_offset,
                count: self.count.unwrap_or(0),
                start_ms: milliseconds(self.start),
                duration_ms: match (self.count, self.seconds) {
                    (Some(_), _) => 0,
                    (None, None) => DURATION_MS,
                    (None, Some(seconds)) => milliseconds(seconds).max(1),
                },
                seed: match mgid {
                    // One flow for all of its receivers.
                    Some(_) => seed_of(seed.wrapping_add(u64::from(group)), (pair.0, pair.0)),
                    None => seed_of(seed.wrapping_add(u64::from(group)), pair),
                },
                step: None,
                is_warm_up: false,
            }
        };
        Ok(pairs.into_iter().map(flow).collect())
    }

    pub(super) fn is_multicast(&self) -> bool {
        self.pattern == Some(What::Pattern(Pattern::Multicast))
    }

    /// Who sends to whom, by positions among all hosts, and the share of its host's load.
    fn pairs(&self, hosts: &[&str], seed: u64) -> Result<Vec<(Pair, Share)>, String> {
        match self.pattern {
            Some(_) if !(self.from.is_empty() && self.to.is_empty()) => {
                Err("a pattern and from, to: one of them".to_owned())
            }
            None if self.from.is_empty() || self.to.is_empty() => {
                Err("a pattern is missing, or both from and to".to_owned())
            }
            None if self.target.is_some() || !self.hosts.is_empty() => {
                Err("hosts and target belong to a pattern".to_owned())
            }
            None => {
                let from = named("from", &self.from, hosts)?;
                Ok(each_to_each(&from, &named("to", &self.to, hosts)?))
            }
            Some(What::Pattern(pattern)) => self.pairs_of(pattern, hosts, seed),
            // A collective has transfers in place of pairs.
            Some(What::Collective(_)) => Ok(Vec::new()),
        }
    }

    /// The positions of the hosts that take part among all.
    pub(in crate::traffic) fn among(&self, hosts: &[&str]) -> Result<Vec<usize>, String> {
        match self.hosts.as_slice() {
            [] => Ok((0..hosts.len()).collect()),
            globs => named("hosts", globs, hosts),
        }
    }

    fn pairs_of(
        &self,
        pattern: Pattern,
        hosts: &[&str],
        seed: u64,
    ) -> Result<Vec<(Pair, Share)>, String> {
        let among = self.among(hosts)?;
        let senders = match self.senders.as_slice() {
            [] => among.clone(),
            globs => named("senders", globs, hosts)?,
        };
        if let Some(&other) = senders.iter().find(|host| !among.contains(host)) {
            return Err(format!("senders: {} is not among the hosts", hosts[other]));
        }
        let target = match &self.target {
            None => 0,
            Some(_) if !matches!(pattern, Pattern::Centric(_)) => {
                return Err("target belongs to centric-PERCENT".to_owned());
            }
            Some(target) => {
                let mut among = among.iter();
                let found = among.position(|&host| hosts[host] == target);
                found.ok_or_else(|| format!("target {target:?} is no host of the group"))?
            }
        };
        let pairs = pattern.pairs(among.len(), target, seed);
        let pairs = pairs.map_err(|error: PatternError| error.to_string())?;
        let placed = |((from, to), share): (Pair, Share)| ((among[from], among[to]), share);
        let pairs = pairs.into_iter().map(placed);
        Ok(pairs
            .filter(|((from, _), _)| senders.contains(from))
            .collect())
    }
}

/// The multicast group of a group of flows: of the fabric's own scope, in a range of our own.
pub(super) fn mgid_of(group: u32) -> Gid {
    let group = u16::try_from(group).unwrap_or(u16::MAX);
    Gid(Ipv6Addr::new(0xff12, 0x1bed, 0, 0, 0, 0, 2, group).octets())
}

/// Every one of `from` to every one of `to` but itself, with even shares.
fn each_to_each(from: &[usize], to: &[usize]) -> Vec<(Pair, Share)> {
    let of_source = |&source: &usize| {
        let others: Vec<usize> = to.iter().copied().filter(|&to| to != source).collect();
        let share = Share {
            parts: 1,
            of: saturate::<u32>(others.len()),
        };
        others.into_iter().map(move |to| ((source, to), share))
    };
    from.iter().flat_map(of_source).collect()
}

/// The hosts whose names are like one of these, in order.
fn named(key: &str, globs: &[String], hosts: &[&str]) -> Result<Vec<usize>, String> {
    for glob in globs {
        if !hosts.iter().any(|name| matches(glob, name)) {
            return Err(format!(
                "{key}: no host that can be reached is like {glob:?}"
            ));
        }
    }
    let like = |name: &&str| globs.iter().any(|glob| matches(glob, name));
    let positions = hosts.iter().zip(0..).filter(|(name, _)| like(name));
    Ok(positions.map(|(_, position)| position).collect())
}
