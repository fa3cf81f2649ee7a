#pragma once

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

// What newer versions of torch added to c10d::Backend and the extension implements. It is compiled
// for one version at a time, from 2.13 on; a method that a version does not have cannot be declared
// `override` there. Methods that later versions renamed need nothing here: each new name forwards
// to the old one, which stays virtual. C10D_BACKEND_HAS_RECONFIGURE is torch's own.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
#define ATP_TORCH_HAS_GATHER_SINGLE
#endif
