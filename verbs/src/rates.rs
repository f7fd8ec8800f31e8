//! Rates of links: the numbers of PathRecord's Rate (IBA 15.2.5.16), multiples of 2.5 Gbit/s, and Mbit/s.

/// A rate's number, its multiple of 2.5 Gbit/s if libibverbs knows one, and its Mbit/s.
type Rate = (u32, Option<i32>, i32);

const RATES: &[Rate] = &[
    (2, Some(1), 2_500),
    (5, Some(2), 5_000),
    (3, Some(4), 10_000),
    (6, Some(8), 20_000),
    (4, Some(12), 30_000),
    (7, Some(16), 40_000),
    (8, Some(24), 60_000),
    (9, Some(32), 80_000),
    (10, Some(48), 120_000),
    (11, None, 14_062),
    (12, None, 56_250),
    (13, None, 112_500),
    (14, None, 168_750),
    (15, None, 25_781),
    (16, None, 103_125),
    (17, None, 206_250),
    (18, None, 309_375),
    (19, Some(11), 28_125),
    (20, Some(20), 53_125),
    (21, Some(160), 425_000),
    (22, Some(240), 637_500),
    (23, Some(320), 850_000),
    (24, Some(480), 1_275_000),
];

/// `IBV_RATE_MAX`: whatever the port has.
const MAX: u32 = 0;

fn find(rate: u32) -> Option<&'static Rate> {
    RATES.iter().find(|&&(number, _, _)| number == rate)
}

/// The multiple of 2.5 Gbit/s of a rate's number; -1 if there is none.
pub(crate) fn multiple(rate: u32) -> i32 {
    find(rate)
        .and_then(|&(_, multiple, _)| multiple)
        .unwrap_or(-1)
}

/// The Mbit/s of a rate's number; -1 if there is no such rate.
pub(crate) fn mbit_per_second(rate: u32) -> i32 {
    find(rate).map_or(-1, |&(_, _, rate)| rate)
}

/// The number of the rate with this multiple of 2.5 Gbit/s.
pub(crate) fn of_multiple(multiple: i32) -> u32 {
    let mut rates = RATES.iter();
    let found = rates.find(|&&(_, own, _)| own == Some(multiple));
    found.map_or(MAX, |&(number, _, _)| number)
}

/// The number of the rate with these Mbit/s.
pub(crate) fn of_mbit_per_second(rate: i32) -> u32 {
    let found = RATES.iter().find(|&&(_, _, own)| own == rate);
    found.map_or(MAX, |&(number, _, _)| number)
}
