//! The text of partitions, in OpenSM's syntax (its `doc/partition-config.txt`):
//!
//! ```text
//! [Name][=P_Key][,flag[=value]]...: [defmember=full|limited|both :] [port[=full|limited|both]], ... ;
//! ```
//!
//! * P_Key: decimal or 0x..., of which 15 bits count; without one, the highest number that is free. Several
//!   definitions of one number are one partition.
//! * Flags: `ipoib` (a broadcast group), with `rate`, `mtu`, `sl`, `scope` as codes of the specification;
//!   `defmember`: the membership of ports without one, `limited` unless it says else; `indx0`, which the
//!   default partition's key is anyway.
//! * Ports: port GUIDs, decimal or 0x..., and ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF.
//! * A membership may be cut short (`limi`). `#` begins a comment.
//!
//! What OpenSM passes over with a line in its log is refused here: unknown flags and memberships, numbers out
//! of range. Its multicast groups beside that of `ipoib` (`mgid=`) are not known.

use std::collections::BTreeSet;

use thiserror::Error;
use wire::Guid;
use wire::p_key::{DEFAULT_PARTITION, PARTITION};

use super::{Ipoib, Member, Membership, Partition, Partitions};

/// Why a text cannot be read as partitions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct PartitionsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(char),
}

const MARKS: [char; 4] = ['=', ',', ':', ';'];

/// The words and marks of a text, with the line of each, from 1.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default();
        for part in text.split_inclusive(MARKS) {
            let (words, mark) = match part.chars().last().filter(|last| MARKS.contains(last)) {
                Some(mark) => (&part[..part.len() - mark.len_utf8()], Some(mark)),
                None => (part, None),
            };
            let words = words.split_whitespace();
            tokens.extend(words.map(|word| (line, Token::Word(word.to_owned()))));
            tokens.extend(mark.map(|mark| (line, Token::Mark(mark))));
        }
    }
    tokens
}

/// The rest of a text.
struct Reader {
    tokens: std::vec::IntoIter<(usize, Token)>,
    /// The line of the last token that was taken.
    line: usize,
}

/// The flags of a definition.
#[derive(Clone, Copy, Debug)]
struct Flags {
    is_ipoib: bool,
    group: Ipoib,
    /// The membership of ports without one.
    unnamed: Membership,
}

/// A definition before numbers are given to those without one.
struct Definition {
    number: Option<u16>,
    partition: Partition,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.as_slice().first().map(|(_, token)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let (line, token) = self.tokens.next()?;
        self.line = line;
        Some(token)
    }

    fn problem<T>(&self, problem: impl Into<String>) -> Result<T, PartitionsError> {
        Err(PartitionsError {
            line: self.line,
            problem: problem.into(),
        })
    }

    /// Takes a mark if it is the next token.
    fn takes(&mut self, mark: char) -> bool {
        let is_next = self.peek() == Some(&Token::Mark(mark));
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes a word if one is next.
    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(_)) => match self.next() {
                Some(Token::Word(word)) => Some(word),
                _ => None,
            },
            _ => None,
        }
    }

    /// The word behind an equals sign.
    fn value(&mut self, of: &str) -> Result<String, PartitionsError> {
        match self.word() {
            Some(word) => Ok(word),
            None => self.problem(format!("{of}= has no value")),
        }
    }

    fn number(
        &self,
        text: &str,
        what: &str,
        least: u64,
        most: u64,
    ) -> Result<u64, PartitionsError> {
        let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) if digits.starts_with('+') => None,
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None if text.starts_with('+') => None,
            None => text.parse().ok(),
        };
        match parsed.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(number),
            None => self.problem(format!(
                "{text:?} is no {what}: write a number from {least} to {most}, or 0x and hexadecimal digits"
            )),
        }
    }

    fn code(&self, text: &str, what: &str, least: u8, most: u8) -> Result<u8, PartitionsError> {
        let code = self.number(text, what, least.into(), most.into())?;
        // Cannot be cut: the number is at most `most`.
        Ok(u8::try_from(code).unwrap_or(most))
    }

    fn membership(&self, text: &str) -> Result<Membership, PartitionsError> {
        let all = [
            ("full", Membership::Full),
            ("limited", Membership::Limited),
            ("both", Membership::Both),
        ];
        match all.iter().find(|(name, _)| name.starts_with(text)) {
            Some(&(_, membership)) => Ok(membership),
            None => self.problem(format!("{text:?} is no membership: full, limited or both")),
        }
    }

    /// One definition with its ports.
    fn definition(&mut self) -> Result<Definition, PartitionsError> {
        let name = self.word().unwrap_or_default();
        let mut number = None;
        if self.takes('=') {
            let text = self.value("the P_Key")?;
            let key = self.number(&text, "P_Key", 0, 0xffff)? & u64::from(PARTITION);
            if key == 0 {
                return self.problem(format!("{text} names no partition: 15 bits of it are 0"));
            }
            // Cannot be cut: 15 bits.
            number = u16::try_from(key).ok();
        }
        let mut flags = Flags {
            is_ipoib: false,
            group: Ipoib::default(),
            unnamed: Membership::Limited,
        };
        while self.takes(',') {
            self.flag(&mut flags)?;
        }
        if !self.takes(':') {
            self.next();
            return self.problem("a ':' is missing between a partition and its ports");
        }
        if self.peek() == Some(&Token::Word("defmember".into())) {
            self.flag(&mut flags)?;
            if !self.takes(':') {
                return self.problem("a ':' is missing between defmember and the ports");
            }
        }
        let members = self.members(flags.unnamed)?;
        let partition = Partition {
            name,
            number: number.unwrap_or_default(),
            ipoib: flags.is_ipoib.then_some(flags.group),
            members,
        };
        Ok(Definition { number, partition })
    }

    fn flag(&mut self, flags: &mut Flags) -> Result<(), PartitionsError> {
        let Some(flag) = self.word() else {
            return self.problem("a flag is missing behind ','");
        };
        let value = match self.takes('=') {
            true => Some(self.value(&flag)?),
            false => None,
        };
        match (flag.as_str(), value.as_deref()) {
            ("ipoib", None) => flags.is_ipoib = true,
            ("indx0", None) => {}
            ("defmember", Some(value)) => flags.unnamed = self.membership(value)?,
            ("rate", Some(value)) => flags.group.rate = self.code(value, "rate", 2, 63)?,
            ("mtu", Some(value)) => flags.group.mtu = self.code(value, "MTU", 1, 5)?,
            ("sl", Some(value)) => flags.group.sl = self.code(value, "service level", 0, 15)?,
            ("scope", Some(value)) => flags.group.scope = self.code(value, "scope", 1, 14)?,
            ("ipoib" | "indx0", Some(_)) => {
                return self.problem(format!("{flag} takes no value"));
            }
            ("defmember" | "rate" | "mtu" | "sl" | "scope", None) => {
                return self.problem(format!("{flag}= has no value"));
            }
            _ => {
                return self.problem(format!(
                    "{flag:?} is no flag: ipoib, rate=, mtu=, sl=, scope=, defmember=, indx0"
                ));
            }
        }
        Ok(())
    }

    /// The ports, up to the ';'.
    fn members(
        &mut self,
        unnamed: Membership,
    ) -> Result<Vec<(Member, Membership)>, PartitionsError> {
        let mut members = Vec::new();
        loop {
            if self.takes(';') {
                return Ok(members);
            }
            let Some(name) = self.word() else {
                return match self.next() {
                    Some(Token::Mark(mark)) => {
                        self.problem(format!("a port is missing before '{mark}'"))
                    }
                    _ => self.problem("a ';' is missing behind the last port"),
                };
            };
            let member = self.member(&name)?;
            let membership = match self.takes('=') {
                true => {
                    let text = self.value(&name)?;
                    self.membership(&text)?
                }
                false => unnamed,
            };
            members.push((member, membership));
            if !self.takes(',') && self.peek() != Some(&Token::Mark(';')) {
                return match self.next() {
                    None => self.problem("a ';' is missing behind the last port"),
                    Some(_) => self.problem(format!("a ',' or ';' is missing behind {name}")),
                };
            }
        }
    }

    fn member(&self, name: &str) -> Result<Member, PartitionsError> {
        Ok(match name {
            "ALL" => Member::All,
            "ALL_CAS" => Member::ChannelAdapters,
            "ALL_SWITCHES" => Member::Switches,
            "ALL_ROUTERS" => Member::Routers,
            "SELF" => Member::Own,
            _ if name.starts_with(|first: char| first.is_ascii_digit()) => {
                Member::Port(Guid(self.number(name, "port GUID", 1, u64::MAX)?))
            }
            _ => {
                return self.problem(format!(
                    "{name:?} is no port: a port GUID (0x...; ibemu status shows those of nodes, a host's \
                     port has the next), ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF"
                ));
            }
        })
    }
}

impl Partitions {
    /// The partitions of a text in OpenSM's syntax.
    ///
    /// # Errors
    /// [`PartitionsError`] with the line.
    pub fn read(text: &str) -> Result<Self, PartitionsError> {
        let mut reader = Reader {
            tokens: tokens(text).into_iter(),
            line: 1,
        };
        let mut all: Vec<Definition> = Vec::new();
        while reader.peek().is_some() {
            let new = reader.definition()?;
            let same = all
                .iter()
                .position(|known| new.number.is_some() && known.number == new.number);
            if let Some(at) = same {
                let known = &mut all[at].partition;
                known.members.extend(new.partition.members);
                known.ipoib = known.ipoib.or(new.partition.ipoib);
            } else if all.len() < usize::from(PARTITION) {
                all.push(new);
            } else {
                return reader.problem(format!("there are more than {PARTITION} partitions"));
            }
        }
        Ok(Self(numbered(all)))
    }
}

/// Gives numbers to the partitions without one, adds the default partition where no rule names it, and puts
/// all in order.
fn numbered(definitions: Vec<Definition>) -> Vec<Partition> {
    let mut taken: BTreeSet<u16> = definitions.iter().filter_map(|one| one.number).collect();
    let is_default_named = !taken.insert(DEFAULT_PARTITION);
    let mut free = (1..DEFAULT_PARTITION).rev();
    let mut all: Vec<Partition> = definitions
        .into_iter()
        .filter_map(|Definition { number, partition }| {
            let number = number.or_else(|| free.find(|number| !taken.contains(number)))?;
            Some(Partition {
                number,
                ..partition
            })
        })
        .collect();
    if !is_default_named {
        all.push(Partition {
            name: "Default".to_owned(),
            number: DEFAULT_PARTITION,
            ipoib: None,
            members: vec![
                (Member::All, Membership::Limited),
                (Member::Own, Membership::Full),
            ],
        });
    }
    all.sort_by_key(|partition| partition.number);
    all
}
