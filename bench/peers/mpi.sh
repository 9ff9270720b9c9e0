# mpi openmpi|mpich tcp|shm: our small program, compiled by each one's own compiler. The launchers reach the other host by a remote
# shell, which is agent.sh here.
. ./peer.sh
case $1 in openmpi) run=mpirun.openmpi ;; mpich) run=mpiexec.mpich ;; esac
if [ "$2" = version ]; then
    version '' "mpicc.$1" --version >/dev/null
    # The compiler's wrapper may be there without the header: Debian has them in two packages.
    echo '#include <mpi.h>' | "mpicc.$1" -fsyntax-only -xc - >said 2>&1 ||
        fail "mpicc.$1 finds no mpi.h: scripts/setup --with-peers"
    version '' $run --version
    exit
fi
case $1-$2 in
openmpi-tcp) on="-np 2 --host alpha,beta --bind-to none -x AM_BENCH_CORES --mca plm_rsh_agent $HOME/agent.sh --mca pml ob1
    --mca btl tcp,self --mca btl_tcp_if_include am0 --mca oob_tcp_if_include am0" ;;
openmpi-shm) on='-np 2 --host alpha:2 --bind-to none --mca pml ob1 --mca btl vader,self' ;;
mpich-tcp) on="-launcher ssh -launcher-exec $HOME/agent.sh -hosts alpha,beta -iface am0 -n 2"
    export UCX_TLS=tcp,self UCX_NET_DEVICES=am0 ;;
mpich-shm) on='-launcher fork -n 2' && export UCX_TLS=posix,self ;;
esac
# Open MPI refuses to run as root without this.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"mpicc.$1" -O2 -o mpi mpi.c
$run $on $HOME/mpi "$TIME" "$WARM_UP" $SIZES
