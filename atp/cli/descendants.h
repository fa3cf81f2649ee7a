#pragma once

// Nothing that a command started may outlive it, whatever its children do: start children of their
// own, leave their process group, or ignore signals. A subreaper adopts every orphan below it, so
// it can kill generation after generation until it has no child left.

namespace atp {

// Makes this process adopt orphans below it.
void become_subreaper();

// Kills (SIGKILL) and reaps all descendants of this process, a subreaper. Returns when none is
// left.
void kill_descendants();

}  // namespace atp
