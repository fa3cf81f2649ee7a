#pragma once

// Lets Ctrl-C, and every other signal that Python handles, end a wait in this extension. Python
// runs its handlers only on the main thread, and only while that thread runs Python code.

namespace atp::pytorch {

void let_signals_interrupt_waits();
// Throws what a handler has raised during a wait, if one has.
void throw_if_interrupted();

}  // namespace atp::pytorch
