//! Parts of long messages on their way between packets and the consumer's memory: one access of [`crate::Memory`]
//! for many packets, as an access costs its owner more than copying the bytes.
//!
//! ```text
//!  memory --read, up to 64 KiB--> | sent | to be sent |       --packet--> port          ReadAhead
//!  port --packet--> | come | to come |     --write, up to 64 KiB--> memory              WriteBehind
//! ```
//!
//! Nothing is read beyond the message, and nothing of an earlier time is sent: a message's first packet, and the first one of
//! its repetition, read anew. Nothing is held back beyond the end of its message, upon which alone the consumer and the peer learn of
//! it. Memory that cannot be accessed as a whole is accessed a packet at a time, so that each packet has its own outcome.
//!
//! A message of one packet, and one for which there is no buffer, is not staged.

use std::sync::Arc;

use wire::Psn;

/// Bytes of a buffer.
pub(crate) const STAGE_BYTES: usize = 64 * 1024;
/// Buffers of a port at most.
const STAGES_MAX: usize = 64;

/// A buffer; it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    bytes: Box<[u8]>,
    /// Shared with [`Stages::counted`].
    _count: Arc<()>,
}

/// The buffers of a port.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    free: Vec<Stage>,
    /// Shared by all buffers, free ones too.
    counted: Arc<()>,
}

impl Stages {
    fn take(&mut self) -> Option<Stage> {
        self.free.pop().or_else(|| {
            (Arc::strong_count(&self.counted) <= STAGES_MAX).then(|| Stage {
                bytes: vec![0; STAGE_BYTES].into_boxed_slice(),
                _count: Arc::clone(&self.counted),
            })
        })
    }

    fn give_back(&mut self, stage: Stage) {
        self.free.push(stage);
    }

    /// Gives the memory of buffers that are not in use back to the allocator.
    pub(crate) fn release_memory(&mut self) {
        self.free = Vec::new();
    }
}

/// Bytes of a message that have been read and are still to be sent.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    run: Option<Ahead>,
}

#[derive(Debug)]
struct Ahead {
    stage: Stage,
    message: Psn,
    /// Where in the message the next byte is.
    from: usize,
    /// The same in the buffer, and where the buffer's content ends.
    at: usize,
    end: usize,
}

/// A packet's part of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The number of the message's first packet.
    pub(crate) message: Psn,
    /// Where the part begins.
    pub(crate) from: usize,
    /// Bytes of the message from there on.
    pub(crate) rest: usize,
    /// Whether sending begins, or begins again, with this packet.
    pub(crate) begins: bool,
}

impl ReadAhead {
    /// Fills `out` with a part of a message, which `read` reads from an offset on.
    ///
    /// # Errors
    /// Those of `read` for this part.
    pub(crate) fn fill<E>(
        &mut self,
        stages: &mut Stages,
        part: Part,
        out: &mut [u8],
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !part.begins && self.take_next(stages, part, out) {
            return Ok(());
        }
        self.forget(stages);
        let ahead = part.rest.min(STAGE_BYTES);
        if ahead > out.len()
            && let Some(mut stage) = stages.take()
        {
            if read(part.from, &mut stage.bytes[..ahead]).is_ok() {
                out.copy_from_slice(&stage.bytes[..out.len()]);
                self.run = Some(Ahead {
                    stage,
                    message: part.message,
                    from: part.from + out.len(),
                    at: out.len(),
                    end: ahead,
                });
                return Ok(());
            }
            stages.give_back(stage);
        }
        read(part.from, out)
    }

    /// Fills `out` with what has been read; `false` if that is something else.
    fn take_next(&mut self, stages: &mut Stages, part: Part, out: &mut [u8]) -> bool {
        let Some(run) = &mut self.run else {
            return false;
        };
        let next = run.stage.bytes[..run.end].get(run.at..run.at + out.len());
        let Some(next) = next.filter(|_| (run.message, run.from) == (part.message, part.from))
        else {
            return false;
        };
        out.copy_from_slice(next);
        run.at += out.len();
        run.from += out.len();
        if run.at == run.end {
            self.forget(stages);
        }
        true
    }

    fn forget(&mut self, stages: &mut Stages) {
        if let Some(run) = self.run.take() {
            stages.give_back(run.stage);
        }
    }
}

/// Bytes of a message that have come and are still to be written.
#[derive(Debug, Default)]
pub(crate) struct WriteBehind {
    run: Option<Behind>,
}

#[derive(Debug)]
struct Behind {
    stage: Stage,
    /// Where in the message the first byte belongs.
    from: usize,
    len: usize,
}

impl WriteBehind {
    /// Takes the bytes of a message from `from` on. `write` is called with bytes and where they belong: at the latest if the
    /// message `ends` with these.
    ///
    /// # Errors
    /// Those of `write`; bytes that came before may be lost with these.
    pub(crate) fn put<E>(
        &mut self,
        stages: &mut Stages,
        from: usize,
        bytes: &[u8],
        ends: bool,
        mut write: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let follows = self
            .run
            .as_ref()
            .is_some_and(|run| run.from + run.len == from && run.room() >= bytes.len());
        if !follows {
            self.flush(stages, &mut write)?;
            if ends || bytes.len() > STAGE_BYTES {
                return write(from, bytes);
            }
        }
        let run = match &mut self.run {
            Some(run) => run,
            None => {
                let Some(stage) = stages.take() else {
                    return write(from, bytes);
                };
                self.run.insert(Behind {
                    stage,
                    from,
                    len: 0,
                })
            }
        };
        run.stage.bytes[run.len..run.len + bytes.len()].copy_from_slice(bytes);
        run.len += bytes.len();
        if ends || run.room() == 0 {
            self.flush(stages, &mut write)?;
        }
        Ok(())
    }

    fn flush<E>(
        &mut self,
        stages: &mut Stages,
        write: &mut impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        let written = write(run.from, &run.stage.bytes[..run.len]);
        stages.give_back(run.stage);
        written
    }

    /// The message will not end: what has come of it is not written.
    pub(crate) fn abandon(&mut self) {
        self.run = None;
    }
}

impl Behind {
    fn room(&self) -> usize {
        STAGE_BYTES - self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of which a byte may be missing, and how often it was read.
    struct Source {
        bytes: Vec<u8>,
        missing: usize,
        reads: usize,
    }

    impl Source {
        fn new(len: usize) -> Self {
            let bytes = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            Self {
                bytes,
                missing: usize::MAX,
                reads: 0,
            }
        }

        fn read(&mut self, from: usize, out: &mut [u8]) -> Result<(), ()> {
            self.reads += 1;
            let range = from..from + out.len();
            if range.contains(&self.missing) {
                return Err(());
            }
            out.copy_from_slice(&self.bytes[range]);
            Ok(())
        }
    }

    fn part(message: u32, from: usize, len: usize) -> Part {
        Part {
            message: Psn::truncate(message),
            from,
            rest: len - from,
            begins: from == 0,
        }
    }

    #[test]
    fn a_long_message_is_read_once_for_many_packets_and_each_gets_its_bytes() {
        let mut stages = Stages::default();
        let mut ahead = ReadAhead::default();
        let len = 3 * STAGE_BYTES + 700;
        let mut source = Source::new(len);
        for from in (0..len).step_by(1024) {
            let mut out = vec![0; 1024.min(len - from)];
            let filled = ahead.fill(&mut stages, part(7, from, len), &mut out, |from, out| {
                source.read(from, out)
            });
            assert_eq!(filled, Ok(()));
            assert_eq!(out, source.bytes[from..from + out.len()]);
        }
        assert_eq!(source.reads, 4);
        assert_eq!(stages.free.len(), 1, "it is free for the next message");
    }

    #[test]
    fn what_a_message_had_before_it_began_anew_is_not_sent() {
        let mut stages = Stages::default();
        let mut ahead = ReadAhead::default();
        let mut source = Source::new(4096);
        let mut fill = |message, from, source: &mut Source| {
            let mut out = [0; 1024];
            let filled = ahead.fill(
                &mut stages,
                part(message, from, 4096),
                &mut out,
                |from, out| source.read(from, out),
            );
            filled.map(|()| out[0])
        };
        assert_eq!(fill(1, 0, &mut source), Ok(0));
        source.bytes.fill(99);
        let old = Source::new(4096);
        assert_eq!(fill(1, 1024, &mut source), Ok(old.bytes[1024]));
        assert_eq!(fill(2, 2048, &mut source), Ok(99), "of another message");
        assert_eq!(fill(2, 1024, &mut source), Ok(99), "from another place");
        source.bytes.fill(98);
        assert_eq!(fill(2, 2048, &mut source), Ok(99));
        assert_eq!(fill(2, 0, &mut source), Ok(98), "from its begin");
    }

    #[test]
    fn packets_before_memory_that_is_missing_are_filled() {
        let mut stages = Stages::default();
        let mut ahead = ReadAhead::default();
        let mut source = Source::new(4096);
        source.missing = 3000;
        let outcomes = [0, 1024, 2048].map(|from| {
            ahead.fill(
                &mut stages,
                part(1, from, 4096),
                &mut [0; 1024],
                |from, out| source.read(from, out),
            )
        });
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(())]);
    }

    #[test]
    fn a_message_is_written_whole_by_its_end_and_in_few_pieces() {
        let mut stages = Stages::default();
        let mut behind = WriteBehind::default();
        let len = 2 * STAGE_BYTES + 500;
        let source = Source::new(len);
        let (mut written, mut writes) = (vec![0; len], 0);
        for from in (0..len).step_by(1000) {
            let end = (from + 1000).min(len);
            let bytes = &source.bytes[from..end];
            let put = behind.put(&mut stages, from, bytes, end == len, |at, bytes| {
                written[at..at + bytes.len()].copy_from_slice(bytes);
                writes += 1;
                Ok::<(), ()>(())
            });
            assert_eq!(put, Ok(()));
        }
        assert_eq!(written, source.bytes);
        assert_eq!(writes, 3);
        assert_eq!(stages.free.len(), 1);
    }

    #[test]
    fn a_message_that_is_abandoned_leaves_nothing_to_the_next() {
        let mut stages = Stages::default();
        let mut behind = WriteBehind::default();
        let mut written = Vec::new();
        let mut put = |behind: &mut WriteBehind, from, bytes: &[u8], ends| {
            behind.put(&mut stages, from, bytes, ends, |at, bytes| {
                written.push((at, bytes.to_vec()));
                Ok::<(), ()>(())
            })
        };
        put(&mut behind, 0, &[1; 4], false).expect("taken");
        behind.abandon();
        put(&mut behind, 0, &[2; 4], false).expect("taken");
        put(&mut behind, 4, &[3; 2], true).expect("taken");
        put(&mut behind, 0, &[4; 2], true).expect("taken");
        let expected = [(0, vec![2, 2, 2, 2, 3, 3]), (0, vec![4, 4])];
        assert_eq!(written, expected);
    }

    #[test]
    fn without_a_buffer_each_packet_is_written_and_read_by_itself() {
        let mut stages = Stages::default();
        let mut all: Vec<Stage> = std::iter::from_fn(|| stages.take()).collect();
        assert_eq!(all.len(), STAGES_MAX);
        let (mut ahead, mut behind) = (ReadAhead::default(), WriteBehind::default());
        let (mut source, mut writes) = (Source::new(4096), 0);
        for from in (0..4096).step_by(1024) {
            let mut out = [0; 1024];
            let filled = ahead.fill(&mut stages, part(1, from, 4096), &mut out, |from, out| {
                source.read(from, out)
            });
            assert_eq!(filled, Ok(()));
            let put = behind.put(&mut stages, from, &out, from == 3072, |at, bytes| {
                writes += 1;
                assert_eq!(bytes, &Source::new(4096).bytes[at..at + 1024]);
                Ok::<(), ()>(())
            });
            assert_eq!(put, Ok(()));
        }
        assert_eq!((source.reads, writes), (4, 4));
        all.pop();
        assert!(
            stages.take().is_some(),
            "one that was dropped counts no more"
        );
    }
}
