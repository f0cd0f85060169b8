//! Bugs on purpose: each breaks one promise, and the oracle must notice. What it does not notice
//! it does not check.

use std::fmt;

use crate::disk::Lie;

/// One broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`promise` says what each one breaks")]
pub enum Bug {
    SyncDoesNothing,
    DirectorySyncDoesNothing,
    LengthNotSynced,
    WriteDropped,
    WriteCutShort,
    WriteMisdirected,
    ReadBitFlipped,
    RenameNotDurable,
    AnswerBeforeDurable,
    DuplicateStored,
    AppendedTwice,
    CloseForgotten,
    RetentionForgotten,
    ForkOffByOne,
    SnapshotBytesChanged,
    AttributesForgotten,
    DeletedComesBack,
    OlderStateRecovered,
    NewestLogFileIgnored,
    OldestLogFileReclaimed,
    SegmentNotSynced,
    SegmentReclaimed,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 22] = [
        Self::SyncDoesNothing,
        Self::DirectorySyncDoesNothing,
        Self::LengthNotSynced,
        Self::WriteDropped,
        Self::WriteCutShort,
        Self::WriteMisdirected,
        Self::ReadBitFlipped,
        Self::RenameNotDurable,
        Self::AnswerBeforeDurable,
        Self::DuplicateStored,
        Self::AppendedTwice,
        Self::CloseForgotten,
        Self::RetentionForgotten,
        Self::ForkOffByOne,
        Self::SnapshotBytesChanged,
        Self::AttributesForgotten,
        Self::DeletedComesBack,
        Self::OlderStateRecovered,
        Self::NewestLogFileIgnored,
        Self::OldestLogFileReclaimed,
        Self::SegmentNotSynced,
        Self::SegmentReclaimed,
    ];

    /// Within how many seeds it must have been noticed.
    pub fn seeds_max(self) -> u64 {
        match self {
            Self::RenameNotDurable | Self::LengthNotSynced => 200,
            _ => 60,
        }
    }

    /// How the disk lies, if that is the bug.
    pub(crate) fn lie(self) -> Option<Lie> {
        Some(match self {
            Self::SyncDoesNothing => Lie::Sync,
            Self::DirectorySyncDoesNothing => Lie::SyncDir,
            Self::LengthNotSynced => Lie::Length,
            Self::WriteDropped => Lie::DroppedWrite(40),
            Self::WriteCutShort => Lie::ShortWrite(40),
            Self::WriteMisdirected => Lie::Misdirected(40),
            Self::ReadBitFlipped => Lie::BadRead(60),
            Self::RenameNotDurable => Lie::Rename,
            Self::SegmentNotSynced => Lie::SegmentSync,
            _ => return None,
        })
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
