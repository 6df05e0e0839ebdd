//! The streams of one tenant. To the driver they are in order with nothing; what
//! the default stream of CUDA orders is made here by events, so that it orders
//! the streams of this tenant alone.
//!
//! Launches that nobody waits for are collected as long as more requests are there, and
//! then put in by few calls ([`crate::chains`]). To all else here they are in their
//! stream: whatever is asked for or put in puts them in first.

use crate::chains::{self, LONGEST, Piece};
use crate::device::Contained;
use crate::fair::{Pieces, Share};
use crate::numbers::Numbers;
use crate::partition::Stopper;
use crate::progress::{Marks, Progress};
use crate::quiet::{Putting, Quiescent, Quiet};
use crate::streams::{Lent, Streams};
use crate::turns::Turn;
use driver::DriverError;
use driver::calls::{Context, Event, Stream};
use protocol::{DEFAULT_STREAM as DEFAULT, QUIET_IN_A_ROW};
use std::sync::Arc;
use std::time::Instant;

/// Streams of a tenant besides the default one that get chains.
const CHAINED: usize = 7;

/// Why nothing was put into a stream.
pub(crate) enum NotPut {
    /// There is no such stream.
    NoStream,
    /// There is too much in it: later.
    Full,
    Driver(DriverError),
}

impl From<DriverError> for NotPut {
    fn from(error: DriverError) -> NotPut {
        NotPut::Driver(error)
    }
}

/// A stream, or why there is none.
pub(crate) enum Created {
    Stream(u32),
    /// The tenant has too many.
    TooMany,
    /// The device must make more first, while no kernel runs.
    NoneSpare,
}

/// A stream.
struct Lane {
    stream: Arc<Lent>,
    /// Show how its work gets on.
    marks: Arc<Marks>,
    /// Ordered with the default stream.
    is_blocking: bool,
    /// Recorded behind its work when another stream has to wait for that.
    mark: Event,
    /// How often something was put in.
    puts: u64,
    /// How many puts of the default stream it waits for.
    waited: u64,
    /// How many of its puts the default stream waits for.
    waited_for: u64,
    /// Puts since it was last seen idle.
    queued: u32,
}

/// What the streams of a tenant have in common.
pub(crate) struct Common {
    /// How many there may be, besides the default one.
    pub(crate) streams: usize,
    /// How much may be in one stream.
    pub(crate) queued: u32,
    /// The tenant's weight.
    pub(crate) weight: u32,
    pub(crate) context: Context,
    pub(crate) quiet: Arc<Quiet>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) lent: Arc<Streams>,
    pub(crate) stopper: Arc<Stopper>,
    pub(crate) contained: Option<Contained>,
}

/// A stream, to put something into it now.
pub(crate) struct Put<'l> {
    stream: &'l Stream,
    _putting: Option<Putting>,
}

impl std::ops::Deref for Put<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        self.stream
    }
}

impl Lane {
    fn new(
        (common, turn): (&Common, &Arc<Turn>),
        stream: Lent,
        is_blocking: bool,
    ) -> Result<Lane, DriverError> {
        let stream = Arc::new(stream);
        if let Some(contained) = &common.contained {
            contained.add(&stream)?;
        }
        let marks = common.progress.watch(&stream, &common.stopper, turn);
        let known = Arc::downgrade(&marks);
        // (The device's failure is noticed by who asks for something.)
        let standing = move |stream: &Stream| known.upgrade()?.standing(stream).ok()?;
        common
            .quiet
            .watch(&stream, &common.stopper, Box::new(standing));
        Ok(Lane {
            marks,
            stream,
            is_blocking,
            mark: common.context.event(false)?,
            puts: 0,
            waited: 0,
            waited_for: 0,
            queued: 0,
        })
    }

    /// Looks what of its work is over.
    fn look(&mut self) -> Result<(), DriverError> {
        // (Who has asked whether it is idle has not looked.)
        if self.marks.look(&self.stream)? {
            self.queued = 0;
        }
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, DriverError> {
        let is_idle = self.queued == 0 || self.stream.is_idle()?;
        if is_idle {
            self.queued = 0;
        }
        Ok(is_idle)
    }
}

impl Drop for Lane {
    /// Whoever looks at the stream now may be the last one to have it, and must not wait
    /// for kernels, as who unloads a module does.
    fn drop(&mut self) {
        // (A stream that keeps its launches is not lent again.)
        let _ = self.stream.forget();
    }
}

/// The streams of a tenant.
pub(crate) struct Lanes {
    common: Common,
    turn: Arc<Turn>,
    default: Lane,
    others: Numbers<Lane>,
    /// Nobody waits for an answer to what is put in.
    is_quiet: bool,
    batch: Option<Batch>,
    /// Launches were collected, and the device did not take one: the first error.
    failed: Option<DriverError>,
}

/// Launches that are collected, all for one stream.
struct Batch {
    number: u32,
    pieces: Vec<Piece>,
    /// They are being put in, from the first one on.
    _putting: Putting,
}

impl Lanes {
    /// The default stream alone, which is this one.
    pub(crate) fn new(common: Common, stream: Lent) -> Result<Lanes, DriverError> {
        let turn = common.progress.turn(&common.stopper, common.weight);
        Ok(Lanes {
            default: Lane::new((&common, &turn), stream, true)?,
            others: Numbers::new(DEFAULT + 1, common.streams),
            common,
            turn,
            is_quiet: false,
            batch: None,
            failed: None,
        })
    }

    /// Why a launch that was collected is in no stream, if there was one since the last
    /// call.
    pub(crate) fn take_failed(&mut self) -> Option<DriverError> {
        self.failed.take()
    }

    /// Puts a launch into a stream. Where nobody waits for an answer, it may go in together
    /// with others that follow: at the latest before anything else is done here.
    pub(crate) fn launch(&mut self, number: u32, piece: Piece) -> Result<(), NotPut> {
        let share = piece.share;
        if !self.is_quiet || piece.launch.is_cooperative {
            piece.put(&*self.put_of(number, share)?)?;
            return Ok(());
        }
        if self
            .batch
            .as_ref()
            .is_some_and(|batch| batch.number != number)
        {
            self.flush();
        }
        let waiting = self.batch.as_ref().map_or(0, |batch| batch.pieces.len());
        let putting = match self.admit(number, share, waiting as u32) {
            Ok(putting) => putting,
            // What is over makes room, once it is in the stream.
            Err(NotPut::Full) if waiting > 0 => {
                self.flush();
                self.admit(number, share, 0)?
            }
            Err(error) => return Err(error),
        };
        self.turn.put(share);
        if let Some(putting) = putting {
            self.batch = Some(Batch {
                number,
                pieces: Vec::with_capacity(LONGEST),
                _putting: putting,
            });
        }
        if let Some(batch) = &mut self.batch {
            batch.pieces.push(piece);
            if batch.pieces.len() >= LONGEST {
                self.flush();
            }
        }
        Ok(())
    }

    /// Puts in what was collected.
    pub(crate) fn flush(&mut self) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        // (The stream was there when they were collected, and had room.)
        if let Err(NotPut::Driver(error)) = self.put_batch(&batch) {
            self.failed.get_or_insert(error);
        }
    }

    fn put_batch(&mut self, batch: &Batch) -> Result<(), NotPut> {
        let Batch {
            number,
            pieces,
            _putting,
        } = batch;
        let over = |turn: &Turn, lost| {
            turn.over(Pieces::of(shares(lost)), None, false, Instant::now());
        };
        let mut pieces = &pieces[..];
        // (One counts itself.)
        let others = pieces.len() as u32 - 1;
        in_order(&mut self.default, &mut self.others, *number)
            .map(|_| ())
            .inspect_err(|_| over(&self.turn, pieces))?;
        let lane = match *number {
            DEFAULT => &mut self.default,
            _ => self.others.get_mut(*number).ok_or(NotPut::NoStream)?,
        };
        lane.puts += u64::from(others);
        lane.queued = lane.queued.saturating_add(others);
        let at: (&Context, &Stream) = (&self.common.context, &lane.stream);
        let mut failed = None;
        while !pieces.is_empty() {
            let put = lane.marks.put_some(at, shares(pieces));
            let count = put.inspect_err(|_| over(&self.turn, pieces))?;
            let (now, later) = pieces.split_at(count);
            let mut note = |error| {
                failed.get_or_insert(error);
            };
            match lane.stream.chains() {
                Some(mut chains) => chains.launch(now, &lane.stream, &mut note),
                None => chains::singly(now, &lane.stream, &mut note),
            }
            pieces = later;
        }
        failed.map_or(Ok(()), |error| Err(NotPut::Driver(error)))
    }

    /// The chains of all streams forget what they launched: a module is unloaded. All
    /// streams are idle.
    pub(crate) fn forget_launches(&mut self) -> Result<(), DriverError> {
        self.flush();
        self.default.stream.forget()?;
        self.others
            .values_mut()
            .try_for_each(|lane| lane.stream.forget())
    }

    /// Whether somebody waits for an answer to what is put in, from now on. Where nobody
    /// does, [`QUIET_IN_A_ROW`] pieces more may be in one stream than there is room for.
    pub(crate) fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Makes a stream.
    pub(crate) fn create(&mut self, is_blocking: bool) -> Result<Created, DriverError> {
        self.flush();
        if !self.others.has_room_for(1) {
            return Ok(Created::TooMany);
        }
        // (Few programs launch into more.)
        let is_chained = self.others.numbered().count() < CHAINED;
        let Some(stream) = self.common.lent.take(&self.common.context, is_chained)? else {
            return Ok(Created::NoneSpare);
        };
        let lane = Lane::new((&self.common, &self.turn), stream, is_blocking)?;
        let number = self.others.add(lane);
        Ok(number.map_or(Created::TooMany, Created::Stream))
    }

    /// Ends a stream, whose work is still done. Whether there was one.
    pub(crate) fn destroy(&mut self, number: u32) -> Result<bool, DriverError> {
        self.flush();
        let Some(mut lane) = self.others.remove(number) else {
            return Ok(false);
        };
        // Who waits for the default stream or for all waits for this, too.
        if !lane.is_idle()? {
            let _putting = self.common.quiet.put();
            let default: (&Context, &Stream) = (&self.common.context, &self.default.stream);
            self.default.marks.put(default, Share::WHOLE)?;
            lane.mark.record(&lane.stream)?;
            self.default.stream.wait_for(&lane.mark)?;
            self.default.puts += 1;
            self.default.queued = self.default.queued.saturating_add(1);
        }
        Ok(true)
    }

    /// The stream, to put something into it: it waits for what comes before by
    /// the rules of the default stream.
    pub(crate) fn put(&mut self, number: u32) -> Result<Put<'_>, NotPut> {
        self.put_of(number, Share::WHOLE)
    }

    /// As [`Lanes::put`], for work that has this part of the device.
    pub(crate) fn put_of(&mut self, number: u32, share: Share) -> Result<Put<'_>, NotPut> {
        // So that the streams be idle soon.
        let is_held = self.common.quiet.has_waiters();
        self.put_into(number, share, is_held)
    }

    /// As [`Lanes::put`], for what takes no time of its own.
    pub(crate) fn put_mark(&mut self, number: u32) -> Result<Put<'_>, NotPut> {
        self.put_into(number, Share::WHOLE, false)
    }

    fn put_into(&mut self, number: u32, share: Share, is_held: bool) -> Result<Put<'_>, NotPut> {
        self.flush();
        let putting = self.admit_to(number, share, 0, is_held)?;
        let lane = match number {
            DEFAULT => &mut self.default,
            _ => self.others.get_mut(number).ok_or(NotPut::NoStream)?,
        };
        lane.marks
            .put((&self.common.context, &lane.stream), share)?;
        Ok(Put {
            stream: in_order(&mut self.default, &mut self.others, number)?,
            _putting: putting,
        })
    }

    /// As [`Lanes::admit_to`], for what takes time.
    fn admit(
        &mut self,
        number: u32,
        share: Share,
        waiting: u32,
    ) -> Result<Option<Putting>, NotPut> {
        // So that the streams be idle soon.
        let is_held = self.common.quiet.has_waiters();
        self.admit_to(number, share, waiting, is_held)
    }

    /// Whether one more may be put into a stream, besides those that wait to be. From then
    /// on something is being put in; where some wait, it is since the first of them.
    fn admit_to(
        &mut self,
        number: u32,
        share: Share,
        waiting: u32,
        is_held: bool,
    ) -> Result<Option<Putting>, NotPut> {
        let Lanes {
            common,
            turn,
            default,
            others,
            is_quiet,
            ..
        } = self;
        let room = if is_held { 1 } else { common.queued };
        let beyond = if *is_quiet { QUIET_IN_A_ROW } else { 0 };
        let room = room.saturating_add(beyond);
        let lane = match number {
            DEFAULT => &mut *default,
            _ => others.get_mut(number).ok_or(NotPut::NoStream)?,
        };
        let queued = lane.queued.saturating_add(waiting);
        if queued >= room && (waiting > 0 || !lane.is_idle()?) {
            return Err(NotPut::Full);
        }
        // (Before the turn is looked at: `Quiet::let_pass`.)
        let putting = (waiting == 0).then(|| common.quiet.put());
        let is_first = queued == 0;
        if !turn.may_put(share, is_first, Instant::now) {
            default.look()?;
            others.values_mut().try_for_each(Lane::look)?;
            let lane = match number {
                DEFAULT => Some(&*default),
                _ => others.get(number),
            };
            let is_first = waiting == 0 && lane.is_some_and(|lane| lane.queued == 0);
            if !turn.may_put(share, is_first, Instant::now) {
                return Err(NotPut::Full);
            }
        }
        Ok(putting)
    }

    /// As [`Lanes::put`], while no kernel runs.
    pub(crate) fn put_in(&mut self, _: &Quiescent<'_>, number: u32) -> Result<Put<'_>, NotPut> {
        self.flush();
        Ok(Put {
            stream: in_order(&mut self.default, &mut self.others, number)?,
            _putting: None,
        })
    }

    /// Whether a stream is idle, `None` if there is none. The default stream is
    /// idle if all streams that it is ordered with are.
    pub(crate) fn is_idle(&mut self, number: u32) -> Result<Option<bool>, DriverError> {
        self.flush();
        if number == DEFAULT {
            return self.are_idle(|lane| lane.is_blocking).map(Some);
        }
        match self.others.get_mut(number) {
            Some(lane) => lane.is_idle().map(Some),
            None => Ok(None),
        }
    }

    /// Whether all is over that something put into this stream now would wait
    /// for; `None` if there is no such stream.
    pub(crate) fn is_ready(&mut self, number: u32) -> Result<Option<bool>, DriverError> {
        let waits = match self.others.get(number) {
            Some(lane) => lane.is_blocking,
            None => false,
        };
        let Some(is_idle) = self.is_idle(number)? else {
            return Ok(None);
        };
        Ok(Some(is_idle && (!waits || self.default.is_idle()?)))
    }

    /// Whether threads of a kernel have waited for each other for ever since the last
    /// call. Only the CPU device can tell.
    pub(crate) fn take_deadlock(&self) -> bool {
        let contained = self.common.contained.as_ref();
        contained.is_some_and(Contained::take_deadlock)
    }

    /// Whether all streams are idle.
    pub(crate) fn all_idle(&mut self) -> Result<bool, DriverError> {
        self.are_idle(|_| true)
    }

    fn are_idle(&mut self, which: impl Fn(&Lane) -> bool) -> Result<bool, DriverError> {
        self.flush();
        let mut all = self.default.is_idle()?;
        for lane in self.others.values_mut().filter(|lane| which(lane)) {
            all &= lane.is_idle()?;
        }
        Ok(all)
    }
}

/// The parts of the device that launches have.
fn shares(pieces: &[Piece]) -> impl Iterator<Item = Share> {
    pieces.iter().map(|piece| piece.share)
}

/// The stream, which waits from now on for what comes before by the rules of the
/// default stream.
fn in_order<'l>(
    default: &'l mut Lane,
    others: &'l mut Numbers<Lane>,
    number: u32,
) -> Result<&'l Stream, NotPut> {
    if number == DEFAULT {
        for lane in others.values_mut() {
            if lane.is_blocking && lane.waited_for < lane.puts {
                lane.mark.record(&lane.stream)?;
                default.stream.wait_for(&lane.mark)?;
                lane.waited_for = lane.puts;
            }
        }
        default.puts += 1;
        default.queued += 1;
        return Ok(&default.stream);
    }
    let lane = others.get_mut(number).ok_or(NotPut::NoStream)?;
    if lane.is_blocking && lane.waited < default.puts {
        default.mark.record(&default.stream)?;
        lane.stream.wait_for(&default.mark)?;
        lane.waited = default.puts;
    }
    lane.puts += 1;
    lane.queued += 1;
    Ok(&lane.stream)
}
