# Builds and installs a shared library for C programs, its headers and its description for pkg-config. A binding's Makefile
# sets NAME (of libNAME.so), PACKAGE (cargo's), HEADERS and DESCRIPTION, and includes this file.

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include/$(NAME)
CARGO_TARGET_DIR ?= ../../target
LIBRARY ?= $(CARGO_TARGET_DIR)/library/lib$(NAME).so
STRIP ?= $(shell $(CC) -print-prog-name=strip)

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
# As build.rs has it.
SONAME := lib$(NAME).so.$(basename $(VERSION))

# What panics is caught at the border to C (runtime/src/call.rs), and a cancelled thread unwinds through it. The release profile allows neither.
BUILD := cargo build --profile library -p $(PACKAGE)

# The loader has a list of its libraries, which only root writes. It does not look everywhere.
LDCONFIG := PATH="$$PATH:/usr/sbin:/sbin" ldconfig
TELL_LOADER := { $(LDCONFIG) 2>/dev/null; $(LDCONFIG) -p | grep -qF '=> $(LIBDIR)/$(SONAME)'; } || \
	echo 'The loader does not find $(LIBDIR)/$(SONAME): run programs with LD_LIBRARY_PATH=$(LIBDIR), or link them with -Wl,-rpath,$(LIBDIR)'

all:
	$(BUILD)

# Only where there is none: root installs what a user built.
$(LIBRARY):
	$(BUILD)

install: $(LIBRARY)
	install -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(INCLUDEDIR)'
	install -m 755 -s --strip-program='$(STRIP)' '$(LIBRARY)' '$(DESTDIR)$(LIBDIR)/lib$(NAME).so.$(VERSION)'
	ln -sf lib$(NAME).so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/lib$(NAME).so'
	install -m 644 $(HEADERS) '$(DESTDIR)$(INCLUDEDIR)/'
	sed -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@NAME@|$(NAME)|' -e 's|@DESCRIPTION@|$(DESCRIPTION)|' \
		-e 's|@VERSION@|$(VERSION)|' ../library.pc.in \
		>'$(DESTDIR)$(LIBDIR)/pkgconfig/$(NAME).pc'
	@[ -n '$(DESTDIR)' ] || $(TELL_LOADER)

.PHONY: all install
