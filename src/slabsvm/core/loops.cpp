// Which of the compiled loops run: the best that the processor has, or those that were asked for.
#include "loops.h"

#include <cstdlib>
#include <stdexcept>

#ifdef SLABSVM_X86
#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace slabsvm {

#ifdef SLABSVM_X86

namespace {

// The processor's answers about itself: the registers after the instruction CPUID. All are 0 for what it knows nothing
// of. (__builtin_cpu_supports says no to everything in what zig builds.)
struct Answers {
  unsigned a = 0, b = 0, c = 0, d = 0;

  Answers(unsigned leaf, unsigned subleaf) {
#ifdef _MSC_VER
    int most[4], all[4];
    __cpuid(most, 0);
    if (static_cast<unsigned>(most[0]) >= leaf) {
      __cpuidex(all, static_cast<int>(leaf), static_cast<int>(subleaf));
      a = all[0], b = all[1], c = all[2], d = all[3];
    }
#else
    __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
#endif
  }
};

// Which registers the operating system keeps for a thread while another one runs: XCR0.
unsigned long long kept_registers() {
#ifdef _MSC_VER
  return _xgetbv(0);
#else
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<unsigned long long>(high) << 32) | low;
#endif
}

constexpr unsigned bit(int place) { return 1U << place; }

// Of leaf 1's register c.
constexpr unsigned FMA = bit(12), OSXSAVE = bit(27), AVX = bit(28);
// Of leaf 7's register b.
constexpr unsigned AVX2 = bit(5), AVX512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
// Of XCR0: SSE's and AVX's registers, and besides those of AVX-512.
constexpr unsigned long long AVX_KEPT = 0x06, AVX512_KEPT = 0xe6;

bool all_of(unsigned long long bits, unsigned long long wanted) { return (bits & wanted) == wanted; }

}  // namespace

#endif

namespace {

// The tables whose loops this processor can run, the plainest first.
std::vector<const Loops*> runnable() {
  std::vector<const Loops*> found{&baseline::LOOPS};
#ifdef SLABSVM_X86
  const Answers basic(1, 0);
  const Answers extended(7, 0);
  if (!all_of(basic.c, OSXSAVE | AVX | FMA)) return found;
  const unsigned long long kept = kept_registers();
  if (all_of(kept, AVX_KEPT) && all_of(extended.b, AVX2)) {
    found.push_back(&avx2::LOOPS);
    if (all_of(kept, AVX512_KEPT) && all_of(extended.b, AVX512)) found.push_back(&avx512::LOOPS);
  }
#endif
  return found;
}

}  // namespace

std::vector<std::string> available() {
  std::vector<std::string> names;
  for (const Loops* table : runnable()) names.emplace_back(table->name);
  return names;
}

void use(const std::string& name) {
  std::string names;
  for (const Loops* table : runnable()) {
    if (name == table->name) {
      chosen.store(table, std::memory_order_relaxed);
      return;
    }
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  throw std::invalid_argument("this processor has no instruction set '" + name + "' that there are loops for; it has " +
                              names);
}

void choose() {
  const char* forced = std::getenv("SLABSVM_INSTRUCTIONS");
  try {
    use(forced != nullptr && *forced != '\0' ? forced : available().back());
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("SLABSVM_INSTRUCTIONS: ") + error.what());
  }
}

}  // namespace slabsvm
