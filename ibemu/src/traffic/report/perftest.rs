//! Results in perftest's columns, for scripts that read those.

use anyhow::Result;
use wire::convert::real;

use super::super::run::RunOutcome;
use super::{common_size, sums};
use crate::output;

/// The columns of ib_send_bw and its like.
const HEADER: &str =
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";
/// What stands above and below.
const LINE: &str =
    "---------------------------------------------------------------------------------------";
/// What is not payload of a packet: LRH, BTH, DETH, ICRC and VCRC, bytes.
const HEADERS: u16 = 34;
/// A megabyte, as perftest counts.
const MEGABYTE: f64 = 1_048_576.0;

/// Prints what all flows together have delivered: payload and messages, of which each is a packet.
///
/// # Errors
/// If standard output cannot be written to.
pub(crate) fn print(ran: &RunOutcome) -> Result<()> {
    let all = sums(ran, |_| true);
    let bytes = common_size(&ran.flows).map_or(0, |size| size.saturating_sub(HEADERS));
    let delivered = all.counts.delivered;
    output::line(LINE)?;
    output::line(HEADER)?;
    output::line(row(bytes, delivered, all.elapsed_ns))?;
    output::line(LINE)
}

/// A line. No message is timed by itself, so there is no peak: 0, as perftest prints with a duration.
fn row(bytes: u16, messages: u64, elapsed_ns: u64) -> String {
    let seconds = real(elapsed_ns.max(1)) / 1e9;
    let rate = real(messages) / seconds;
    let average = rate * f64::from(bytes) / MEGABYTE;
    let millions = rate / 1e6;
    format!(
        " {bytes:<7}    {messages:<10}       {:<7.2}            {average:<7.2}\t\t   {millions:<7.6}",
        0.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_perftests_units() {
        let row = row(256, 40_960, 1_000_000_000);
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["256", "40960", "0.00", "10.00", "0.040960"]);
    }
}
